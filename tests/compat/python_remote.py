#!/usr/bin/env python3
"""Does kiste read from servers that others wrote, and write to them? Compares what it prints of a dataset on
disk and of the same in the store, and what it writes to both, signed requests included.

    pip install 'moto[s3,server]' boto3
    cargo build --features full
    python tests/compat/python_remote.py target/debug/kiste                         # moto, which it starts
    python tests/compat/python_remote.py target/debug/kiste http://127.0.0.1:8014   # any server

The keys of a server are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or are AKID and secret, such
as of

    cargo install s3s-fs --features binary
    s3s-fs --access-key AKID --secret-key secret --port 8014 an/empty/folder

Azure, by its emulator, which has to run:

    pip install azure-storage-blob
    npm install azurite
    npx azurite-blob --inMemoryPersistence --skipApiVersionCheck --blobPort 10000
    python tests/compat/python_remote.py target/debug/kiste azure http://127.0.0.1:10000

The bucket "kiste-compat" is made, and what is in it is removed before and after.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

BUCKET = "kiste-compat"


def main(kiste, *args):
    if args[:1] == ("azure",):
        return Compare(kiste, Azure(*args[1:])).run()
    if args:
        return Compare(kiste, S3(*args)).run()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        Compare(kiste, S3(f"http://127.0.0.1:{port}")).run()
    finally:
        server.terminate()
        server.wait()


class S3:
    """A store by a client of its own: how the bucket is filled and looked at."""

    root = f"s3://{BUCKET}"
    elsewhere = "s3://kiste-no-such-bucket/digits.msgpack"

    def __init__(self, endpoint):
        import boto3

        known = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        access, secret = known if all(known) else ("AKID", "secret")
        region = os.environ.get("AWS_REGION", "us-east-1")
        self.env = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": access,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": region,
        }
        self.s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            region_name=region,
        )

    def make(self):
        if BUCKET not in [bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"]]:
            self.s3.create_bucket(Bucket=BUCKET)

    def put(self, name, body):
        self.s3.put_object(Bucket=BUCKET, Key=name, Body=body)

    def get(self, name):
        return self.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def remove(self, name):
        self.s3.delete_object(Bucket=BUCKET, Key=name)

    def list(self, prefix=""):
        """The names of all objects that begin like this."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def unfinished(self):
        """Uploads in parts that were not completed, where the server can say so."""
        try:
            return self.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads") or []
        except Exception:
            return []

    def knows_ends(self):
        """Whether more bytes from the end than there are is all of an object, as in S3."""
        self.put("end", b"short")
        try:
            return self.s3.get_object(Bucket=BUCKET, Key="end", Range="bytes=-100")["Body"].read() == b"short"
        except Exception:
            return False
        finally:
            self.remove("end")


class Azure:
    """Azurite, with the account and the key that it has by default."""

    root = f"az://{BUCKET}"
    elsewhere = "az://kiste-no-such-container/digits.msgpack"

    def __init__(self, endpoint="http://127.0.0.1:10000"):
        from azure.storage.blob import BlobServiceClient

        account = "devstoreaccount1"
        key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        self.env = {
            "AZURE_STORAGE_ACCOUNT_NAME": account,
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{account}",
            "AZURE_ALLOW_HTTP": "true",
        }
        client = BlobServiceClient(f"{endpoint}/{account}", credential=key)
        self.container = client.get_container_client(BUCKET)

    def make(self):
        if not self.container.exists():
            self.container.create_container()

    def put(self, name, body):
        self.container.upload_blob(name, body, overwrite=True)

    def get(self, name):
        return self.container.download_blob(name).readall()

    def remove(self, name):
        self.container.delete_blob(name)

    def list(self, prefix="", **more):
        return sorted(item.name for item in self.container.list_blobs(name_starts_with=prefix, **more))

    def unfinished(self):
        # The service removes them after a week.
        return []

    def knows_ends(self):
        return True


class Compare:
    def __init__(self, kiste, store):
        self.program, self.store, self.root = kiste, store, store.root
        ours = ("AWS_", "AZURE_", "GOOGLE_")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.env |= store.env

    def run(self):
        self.wait()
        self.clear()
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            self.kiste("demo", f"{folder}/demo")
            self.local = Path(folder, "demo", "digits.msgpack")
            self.kiste("index", "--lookup", "--crc", self.local)
            self.remote = f"{self.root}/sets/digits.msgpack"
            for file in self.local.parent.glob("digits.msgpack*"):
                self.upload(file, f"sets/{file.name}")
            # One method for each thing that can be done.
            for step in [
                self.reads,
                self.absent,
                self.writes,
                self.epochs,
                self.sources,
                self.rearranges,
                self.shuffles,
                self.splits,
                self.repairs,
                self.killed,
                self.shards,
            ]:
                step()
        self.clear()
        print("all good")

    def wait(self):
        for _ in range(100):
            try:
                return self.store.make()
            except Exception as error:
                failed = error
                time.sleep(0.1)
        raise SystemExit(f"the server does not start, or the keys are wrong: {failed}")

    def clear(self):
        for item in self.store.list():
            self.store.remove(item)

    def kiste(self, *args, code=0):
        args = [self.program, *map(str, args)]
        done = subprocess.run(args, env=self.env, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, (args, done)
        return done.stdout if code == 0 else done.stderr

    def upload(self, path, name):
        self.store.put(name, Path(path).read_bytes())
        return f"{self.root}/{name}"

    def same_files(self, here, there):
        """The files of a dataset on disk and in the store have the same names and bytes."""
        prefix = there.removeprefix(f"{self.root}/")
        names = sorted(path.name for path in here.parent.glob(f"{here.name}*"))
        found = self.store.list(prefix)
        assert [Path(name).name for name in found] == names, found
        for key, name in zip(found, names):
            body = self.store.get(key)
            assert body == (here.parent / name).read_bytes(), name

    def converts_alike(self, source, url, *options):
        here, there = self.folder / "alike.msgpack", self.folder / "alike-url.msgpack"
        self.kiste("convert", source, here, "--force", *options)
        self.kiste("convert", url, there, "--force", *options)
        assert here.read_bytes() == there.read_bytes(), url
        assert self.kiste("ls", here) == self.kiste("ls", there), url
        print("same: convert", Path(url).name, *options)

    def reads(self):
        key = self.kiste("ls", self.local).splitlines()[1234]
        for before, after in [
            (["info"], []),
            (["ls"], []),
            (["cat"], []),
            (["head", "-n", "7"], []),
            (["tail", "-n", "7"], []),
            (["get"], [key]),
            (["verify", "--deep"], []),
        ]:
            here = self.kiste(*before, self.local, *after)
            there = self.kiste(*before, self.remote, *after)
            # Columns are as wide as the longest name.
            plain = lambda text, name: text.replace(str(name), "SET").split()
            assert plain(there, self.remote) == plain(here, self.local), before
            print("same:", *before)

    def absent(self):
        for name in [f"{self.root}/sets/other.msgpack", self.store.elsewhere]:
            message = self.kiste("info", name, code=2)
            assert "there is no such object" in message, message

    def writes(self):
        """The same bytes in the store as on disk, by one PUT and in parts."""
        lines = self.folder / "large.jsonl"
        text = "x" * 100_000
        with lines.open("w") as out:
            out.writelines(f'{{"key": "{i}", "text": "{text}{i}"}}\n' for i in range(300))
        url = self.upload(lines, "raw/large.jsonl")
        here, there = self.folder / "here" / "new.msgpack", f"{self.root}/new/new.msgpack"
        for source, options in [(self.local, ["--lookup"]), (url, ["--crc"])]:
            self.kiste("convert", source, here, "--force", *options)
            self.kiste("convert", source, there, "--force", *options)
            self.same_files(here, there)
            self.kiste("verify", "--deep", there)
            message = self.kiste("convert", source, there, *options, code=2)
            assert "exists already" in message, message
            assert not self.store.unfinished()
            print("same: convert", *options)

    def epochs(self):
        """A loader reads every sample once."""
        for mode in ["loader", "rand", "key"]:
            found = json.loads(self.kiste("bench", self.remote, "--mode", mode, "--json"))
            assert found["samples"] == len(self.kiste("ls", self.local).splitlines()), found
            print("same: epoch", mode)

    def sources(self):
        """Sources of which not all is read, or not from front to back."""
        digits = self.folder / "demo" / "digits"
        archive = self.folder / "digits.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted(digits.glob("[01]/*.png")):
                out.write(path, path.relative_to(digits))
        self.converts_alike(archive, self.upload(archive, "raw/digits.zip"))
        for ending in ["parquet", "arrow", "npz", "tar", "tfrecord", "csv"]:
            made = self.folder / f"digits.{ending}"
            source = self.local if ending not in ("npz", "csv") else self.numbers()
            self.kiste("convert", source, made)
            if ending == "tar":
                made = made.with_name("digits-000000.tar") if not made.exists() else made
            self.converts_alike(made, self.upload(made, f"raw/{made.name}"))
        mds = self.folder / "mds"
        self.kiste("convert", self.local, mds, "--to", "mds")
        for path in mds.iterdir():
            self.upload(path, f"raw/mds/{path.name}")
        self.converts_alike(mds, f"{self.root}/raw/mds/index.json")
        images = self.folder / "images.csv"
        some = sorted(path.relative_to(digits) for path in digits.glob("[23]/*1.png"))
        images.write_text("path,label\n" + "".join(f"{path},{path.parent}\n" for path in some))
        for path in some:
            self.upload(digits / path, f"raw/images/{path}")
        here, there = self.folder / "list.msgpack", self.folder / "list-url.msgpack"
        self.kiste("convert", images, here, "--root", digits)
        self.kiste("convert", self.upload(images, "raw/images.csv"), there, "--root", f"{self.root}/raw/images")
        assert here.read_bytes() == there.read_bytes()
        print("same: convert", len(some), "images of a list")

    def numbers(self):
        lines = self.folder / "numbers.jsonl"
        with lines.open("w") as out:
            out.writelines(f'{{"key": "{i}", "n": {i}, "x": {i / 8}}}\n' for i in range(1000))
        return lines

    def rearranges(self):
        for name, *options in [
            ("shuffle", "--seed", "4"),
            ("shuffle", "--seed", "4", "--memory", "500k"),
            ("sort", "--by", "label"),
            ("filter", "label > 6"),
            ("sample", "1000"),
        ]:
            here, there = self.folder / "made" / "made.msgpack", f"{self.root}/made/made.msgpack"
            self.kiste(name, self.local, here, *options, "--force")
            self.kiste(name, self.remote, there, *options, "--force")
            self.same_files(here, there)
            print("same:", name, *options)
        message = self.kiste("sort", self.local, f"{self.root}/made/made.msgpack", code=2)
        assert "exists already" in message, message

    def shuffles(self):
        """In two passes of three parts, with what lies between them in the store as well."""
        here, there = self.folder / "mixed" / "mixed.shards.json", f"{self.root}/mixed/mixed.shards.json"
        here.parent.mkdir()
        self.kiste("shuffle", self.local, here, "--seed", "3", "--shards", "3")
        for number in (1, 2):
            for part in ("3/3", "1/3", "2/3"):
                options = ["--seed", "3", "--part", part, "--pass", number]
                self.kiste("shuffle", self.remote, there, *options)
        self.kiste("commit", there)
        self.same_files(here.with_name("mixed"), f"{self.root}/mixed/")
        print("same: shuffle in parts")

    def splits(self):
        here, there = self.folder / "cut" / "cut.msgpack", f"{self.root}/cut/cut.msgpack"
        options = ["--split", "train=0.8,val=0.2", "--shuffle", "--seed", "5", "--crc"]
        self.kiste("convert", self.local, here, *options)
        self.kiste("convert", self.remote, there, *options)
        for part in ["train", "val"]:
            self.same_files(here.with_name(f"cut-{part}.msgpack"), f"{self.root}/cut/cut-{part}.msgpack")
        print("same: convert", *options)

    def repairs(self):
        """The place of a writer that died."""
        url = f"{self.root}/dead/new.msgpack"
        self.store.put("dead/new.msgpack.partial", b"{}")
        message = self.kiste("convert", self.local, url, code=2)
        assert "a writer is working on this dataset, or was killed" in message, message
        self.kiste("repair", url)
        self.kiste("convert", self.local, url)
        print("same: repair")

    def killed(self):
        """A conversion that is killed leaves no dataset, and what it leaves a repair removes."""
        url = f"{self.root}/killed/new.msgpack"
        lines = subprocess.Popen(
            [self.program, "convert", "-", url], env=self.env, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        text = "x" * 1_000_000
        for i in range(40):
            lines.stdin.write(f'{{"key": "{i}", "text": "{text}"}}\n'.encode())
        lines.stdin.flush()
        lines.kill()
        lines.wait()
        assert set(self.store.list("killed/")) <= {"killed/new.msgpack.partial"}, self.store.list("killed/")
        if self.store.list("killed/"):
            self.kiste("repair", url)
        self.kiste("convert", self.local, url)
        self.kiste("verify", "--deep", url)
        print("same: killed")

    def shards(self):
        """A dataset of many files, in parts that are killed, and what is appended to it."""
        if not self.store.knows_ends():
            print("skipped: small shards, as this server fails where the end that is asked for is longer than the object")
            return
        for number in range(12):
            with (self.folder / f"lines-{number:02}.jsonl").open("w") as out:
                for i in range(500):
                    out.write(f'{{"key": "{number}-{i}", "n": {i}, "text": "{"word " * i}"}}\n')
        first, rest = (f"{self.folder}/lines-{{{span}}}.jsonl" for span in ("00..09", "10..11"))
        here, there = self.folder / "many" / "many.shards.json", f"{self.root}/many/many.shards.json"
        here.parent.mkdir()
        for part in range(1, 5):
            options = [first, "--part", f"{part}/4", "--shard-size", "500k"]
            self.kiste("convert", *options, here)
            for wait in (0.05, 0.15, 0.3):
                args = [self.program, "convert", *options, there]
                running = subprocess.Popen(args, env=self.env, stderr=subprocess.DEVNULL)
                time.sleep(wait)
                running.kill()
                running.wait()
            self.kiste("convert", *options, there)
        self.kiste("commit", here)
        message = self.kiste("info", there, code=2)
        assert "many.shards.json" in message, message
        self.kiste("commit", there)
        for output in (here, there):
            self.kiste("convert", rest, output, "--append", "--shard-size", "500k")
        # The shards, and the manifest itself.
        self.same_files(here.with_name("many"), f"{self.root}/many/")
        self.kiste("verify", "--deep", there)
        assert self.kiste("ls", here) == self.kiste("ls", there)
        print("same: parts, commit and append of a dataset of many files")


if __name__ == "__main__":
    main(*sys.argv[1:])
