"""Builds the site to a folder: copies the pages of docs/ and of `extra.pages` in zensical.toml, adds the Python
reference, runs Zensical on them, writes llms.txt, and checks the result.

    python docs/site/build.py FOLDER
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from check import check
from reference import ROOT, Reference

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"(?<!!)\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".rs": "rust", ".py": "python"}


class Pages:
    """Where files of the repository are on the site, and their text there."""

    def __init__(self, extra: dict[str, str]) -> None:
        self.places = {path: f"{path.stem}.md" for path in sorted((ROOT / "docs").glob("*.md"))}
        self.places |= {ROOT / path: place for place, path in extra.items()}
        self.texts: dict[str, str] = {}
        waiting = list(self.places)
        while waiting:
            path = waiting.pop()
            known = set(self.places)
            self.texts[self.places[path]] = self.text(path)
            waiting += set(self.places) - known

    def text(self, path: Path) -> str:
        text = path.read_text("utf-8")
        if path.suffix != ".md":
            # A source file that a page links to.
            language = LANGUAGES.get(path.suffix, "text")
            head = f"---\nsearch:\n  exclude: true\n---\n\n# {path.relative_to(ROOT)}\n\n"
            return f"{head}````{language}\n{text}````\n"
        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        return "".join(self.prose(part, path) if n % 2 == 0 else code(part) for n, part in enumerate(parts))

    def prose(self, text: str, path: Path) -> str:
        """Links to files of the repository become links to their pages."""

        def moved(link: re.Match) -> str:
            if "::" in link[2]:
                # An item of the library: rustdoc follows it.
                return link[1]
            target = (path.parent / link[2]).resolve()
            if target.is_dir():
                target /= "README.md"
            if not target.is_file():
                raise SystemExit(f"error: {path.relative_to(ROOT)}: there is no {link[2]}")
            name = str(target.relative_to(ROOT)).removesuffix(".md") + ".md"
            place = self.places.setdefault(target, f"source/{name}")
            here = os.path.dirname(self.places[path])
            words = link[1]
            if words.endswith(target.name) and not place.startswith("source/"):
                # A link by the name of the file: the site has titles.
                words = title(target)
            return f"[{words}]({os.path.relpath(place, here or '.')}{link[3] or ''})"

        return LINK.sub(moved, text)


def title(page: Path) -> str:
    return re.search("^# (.*)", page.read_text("utf-8"), re.M)[1]


def code(block: str) -> str:
    """A block of code without what is there for the tests only."""
    if block.startswith("```rust"):
        # rustdoc hides these lines as well.
        lines = [line for line in block.splitlines() if not re.match(r" *#( |$)", line)]
        return "\n".join(["```rust", *lines[1:]])
    if ">>>" in block:
        block = re.sub(r"^```python", "```pycon", block).replace("\n\n```", "\n```")
        if "getfixture" in block:
            block = block.replace('getfixture("tmp_path") /', "Path() /").replace('getfixture("tmp_path")', "Path()")
            block = block.replace("```pycon\n", "```pycon\n>>> from pathlib import Path\n", 1)
    return block


def public_items() -> str:
    """docs/public-items.txt by module."""
    modules: dict[str, list[str]] = {}
    for line in (ROOT / "docs/public-items.txt").read_text("utf-8").splitlines():
        module, _, name = line.rpartition(" ")[0].rpartition("::")
        modules.setdefault(module or "kiste", []).append(f"`{name}`")
    return "\n".join(f"\n**{module}**: {', '.join(names)}" for module, names in sorted(modules.items()))


def walk(nav: list | dict | str, titles: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """The pages of a navigation in their order, with the titles that lead to them."""
    if isinstance(nav, str):
        return [(titles, nav)]
    if isinstance(nav, list):
        return [page for part in nav for page in walk(part, titles)]
    return [page for title, part in nav.items() for page in walk(part, (*titles, title))]


def write_llms(project: dict, texts: dict[str, str], site: Path) -> None:
    """llms.txt (llmstxt.org): the pages with what docs/README.md says of them; llms-full.txt: their text."""
    rows = re.findall(r"^\| (.*\(.*) \| (.*) \|$", texts["guide.md"], re.M)
    notes = {page: note for links, note in rows for page in re.findall(r"\]\(([^)#]*)", links)}
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}."]
    section = None
    for titles, page in walk(project["nav"]):
        if titles[0] != section:
            section = titles[0]
            lines += ["", f"## {section}", ""]
        # A page of the Python reference is called by its first heading: "# pykiste.torch {#pykiste.torch}".
        words = texts[page].split()[1] if page.startswith("api/") else titles[-1]
        lines.append(f"- [{words}]({page})" + (f": {notes[page]}" if page in notes else ""))
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (site / "llms-full.txt").write_text("\n".join(texts[page] for _, page in walk(project["nav"])), "utf-8")
    for _, page in walk(project["nav"]):
        (site / page).write_text(texts[page], "utf-8")


def main(folder: Path) -> int:
    project = tomllib.loads((HERE / "zensical.toml").read_text("utf-8"))["project"]
    texts = Pages(project["extra"]["pages"]).texts
    texts["rust.md"] += public_items() + "\n"
    reference = Reference()
    for place, text in reference.pages.items():
        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        text = "".join(code(part) if n % 2 else part for n, part in enumerate(parts))
        guide = lambda name: f"[{title(ROOT / 'docs' / name[1])}](../{name[1]})"
        texts[place] = re.sub(r"`docs/([\w-]+\.md)`", guide, text)
    for problem in sorted(reference.missing):
        print(f"error: reference: {problem}")
    pages = {page for _, page in walk(project["nav"])}
    left_out = [page for page in texts if page not in pages and not page.startswith("source/")]
    for page in left_out:
        print(f"error: zensical.toml: the navigation lacks {page}")

    shutil.rmtree(folder, ignore_errors=True)
    for place, text in texts.items():
        target = folder / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    shutil.copytree(ROOT / "docs/images", folder / "docs/images", ignore=shutil.ignore_patterns("*.py"))
    shutil.copy(HERE / "site.css", folder / "docs")
    shutil.copy(HERE / "zensical.toml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(folder / "zensical.toml")]
    if subprocess.run(command, cwd=folder).returncode:
        return 1
    write_llms(project, texts, folder / "site")
    problems = check(folder / "site")
    return 1 if problems or reference.missing or left_out else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
