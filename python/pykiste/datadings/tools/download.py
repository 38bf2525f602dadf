"""Source files of data sets: downloads and verification."""

import os
import sys
import urllib.error
import urllib.request
from argparse import Namespace
from typing import Any

from pykiste.datadings.tools.hashing import hash_md5hex
from pykiste.datadings.tools.progress import DOWNLOAD_BAR, make_printer

Files = dict[str, dict[str, Any]]


def _fetch(url: str, path: str, chunk_size: int = 256 * 1024) -> None:
    """Downloads a file. What an earlier try has fetched is in `PATH.part`."""
    part = path + ".part"
    fetched = os.stat(part).st_size if os.path.exists(part) else 0
    request = urllib.request.Request(url)
    if fetched:
        request.add_header("Range", f"bytes={fetched}-")
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"Download error HTTP status {error.code!r}") from None
    except urllib.error.URLError:
        raise OSError(f"Could not connect to {url}") from None
    with answer:
        resumes = answer.status == 206
        if not resumes:
            fetched = 0
        left = answer.headers.get("Content-Length")
        printer = make_printer(
            initial=fetched,
            bar_format=DOWNLOAD_BAR,
            total=fetched + int(left) if left else None,
            unit_scale=True,
            unit="B",
        )
        with printer, open(part, "ab" if resumes else "wb") as file:
            while chunk := answer.read(chunk_size):
                file.write(chunk)
                printer.update(len(chunk))
        if left and os.stat(part).st_size < fetched + int(left):
            raise OSError(f"Connection to {url} was lost")
    os.replace(part, path)


def download_if_not_found(url: str, path: str) -> None:
    """Downloads a file unless it is there. Files of Google Drive need the package gdown."""
    if os.path.exists(path):
        return
    if parent := os.path.dirname(path):
        os.makedirs(parent, exist_ok=True)
    print("downloading", os.path.basename(path), "-->", path)
    if "drive.google.com" in url:
        import gdown

        gdown.download(url, path)
        return
    try:
        _fetch(url, path)
    except OSError as error:
        print(error)
        sys.exit(1)
    print()


def download_files_if_not_found(files: Files, indir: str) -> None:
    """Downloads files that have a `"url"`, unless they are there."""
    for meta in files.values():
        if meta.get("url"):
            download_if_not_found(meta["url"], os.path.join(indir, meta["path"]))


def verify_file(meta: dict[str, Any], indir: str) -> None:
    """Ends the program if a file does not have its `"md5"`."""
    name = os.path.basename(meta["path"])
    print("Verifying " + name)
    found = hash_md5hex(os.path.join(indir, meta["path"]), progress=True)
    if found != meta["md5"]:
        print(f"could not verify MD5 for {name}: expected {meta['md5']}, got {found}")
        sys.exit(1)


def verify_files(files: Files, indir: str) -> None:
    """Ends the program if a file does not have its `"md5"`."""
    for meta in files.values():
        verify_file(meta, indir)


def locate_files(files: Files, indir: str) -> Files:
    """The same descriptions, with paths in this directory."""
    return {
        name: meta | {"path": os.path.join(indir, meta["path"])} for name, meta in files.items()
    }


def prepare_indir(files: Files, args: Namespace) -> Files:
    """Downloads and verifies source files, and returns their descriptions with paths in `args.indir`.

    Parameters:
        files: for each name a dict with `"path"`, `"md5"` and perhaps `"url"`
        args: parsed arguments with `indir` and `skip_verification`
    """
    download_files_if_not_found(files, args.indir)
    if not args.skip_verification:
        verify_files(files, args.indir)
    return locate_files(files, args.indir)
