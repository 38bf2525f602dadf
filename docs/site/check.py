"""Checks a built site: links and anchors, what is loaded from elsewhere, and how far pages are from the start.

Links to other sites are listed and not followed.
"""

import os
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser loads by itself.
LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "link": "href"}
CLICKS = 2


class Page(HTMLParser):
    """The links, loaded files and ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given[name] for name in ("id", "name") if name in given and tag not in ("meta", "input", "label")]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def check(site: Path) -> int:
    """Prints all problems and returns how many there are."""
    pages = {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
    problems: list[str] = []
    elsewhere: dict[str, set[str]] = defaultdict(set)
    leads: dict[str, set[str]] = defaultdict(set)
    count = 0
    for name, page in pages.items():
        for link in page.links + page.loaded:
            count += 1
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                elsewhere[link].add(name)
                if parts.scheme not in ("http", "https", "data"):
                    problems.append(f"{name}: {link}: not a link")
                if link in page.loaded and parts.scheme != "data":
                    problems.append(f"{name}: loads {link}")
                continue
            # The page for errors may be shown at any address, so its links are from the root.
            start = "" if link.startswith("/") else os.path.dirname(name)
            path = os.path.normpath(os.path.join(start, unquote(parts.path).lstrip("/"))) if parts.path else name
            path = "index.html" if path == "." else path
            if not (site / path).is_file():
                problems.append(f"{name}: {link}: there is no such file")
                continue
            leads[name].add(path)
            if parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].ids:
                problems.append(f"{name}: {link}: there is no such place in the page")
    for style in site.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]*)", style.read_text("utf-8")):
            problems.append(f"{style.relative_to(site)}: loads {url}")
    near, reached = {"index.html"}, {"index.html"}
    for _ in range(CLICKS):
        near = {target for page in near for target in leads[page]} - reached
        reached |= near
    # Sources are shown for the pages that link to them.
    far = [name for name in pages if name not in reached | {"404.html"} and not name.startswith("source/")]
    problems += [f"{name}: more than {CLICKS} clicks from the start" for name in far]
    for text in site.glob("llms.txt"):
        targets = re.findall(r"\]\(([^)]*)\)", text.read_text("utf-8"))
        problems += [f"{text.name}: {link}: there is no such file" for link in targets if not (site / link).is_file()]
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    print(f"{len(pages)} pages, {size:,} bytes, {count:,} links and files, {len(problems)} problems")
    print(f"{len(elsewhere)} links to other sites, not followed:", *sorted(elsewhere), sep="\n  ")
    print(*(f"error: {problem}" for problem in problems), sep="\n")
    return len(problems)
