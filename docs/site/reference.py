"""The Python reference as pages, from the sources alone: signatures from the stubs, docstrings from the code. Those of
native classes and functions are comments in Rust; python/tests/test_docs.py compares what is found there with the module.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Names that `from pykiste import *` leaves out, for Python has its own.
MORE = {"pykiste": ["open", "filter"]}
WIDTH = 92
#: Operators: shown together below a class.
SPECIAL = "__(?!init|new|reduce|setstate|getstate)[a-z_]+__"

# Comments, attributes, and what they belong to.
_ITEM = re.compile(r"((?:^ *///.*\n)+)((?:^ *#\[[\s\S]*?\]\n)*)^ *(?:pub(?:\(\w+\))? )?(?:struct|enum|fn) (?:r#)?(\w+)", re.M)
_METHODS = re.compile(r"^#\[pymethods\]\nimpl (\w+) \{\n([\s\S]*?)^\}", re.M)


def native_docs() -> dict[str, str]:
    """The docstrings of native classes and functions, and of `Class.method`, as PyO3 makes them from comments."""
    docs = {}
    for source in sorted((ROOT / "python/src").glob("*.rs")):
        text = source.read_text("utf-8")
        for doc, attributes, name in _ITEM.findall(text):
            if "#[pyclass" in attributes or "#[pyfunction" in attributes:
                docs[name] = _uncommented(doc)
        for owner, body in _METHODS.findall(text):
            for doc, attributes, name in _ITEM.findall(body):
                if "#[setter" not in attributes:
                    docs[f"{owner}.{'__new__' if '#[new]' in attributes else name}"] = _uncommented(doc)
    return docs


def _uncommented(doc: str) -> str:
    return "\n".join(line.strip().removeprefix("///").removeprefix(" ") for line in doc.splitlines())


def markdown(doc: str) -> str:
    """A docstring as Markdown: examples and literal blocks become blocks of code."""
    out = []
    for part in re.split(r"\n{2,}(?! )", inspect.cleandoc(doc)):
        if part.startswith(">>>"):
            part = f"```pycon\n{part}\n```"
        elif part.startswith("Parameters:\n"):
            lines = [line.strip() for line in part.splitlines()[1:]]
            part = "\n".join(["Parameters:\n", *(re.sub(r"^(\*{0,2}\w+): ", r"- `\1`: ", line) for line in lines)])
        elif found := re.fullmatch(r"([\s\S]*:):\n\n([\s\S]*)", part):
            part = f"{found[1]}\n\n```python\n{inspect.cleandoc(chr(10) + found[2])}\n```"
        out.append(part)
    return "\n\n".join(out)


def first_sentence(doc: str) -> str:
    sentence = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<=[.:!?]) (?=[A-Z`])", sentence)[0].rstrip(":").replace("|", "\\|")


class Reference:
    """All pages by name, and what public names lack."""

    def __init__(self) -> None:
        import griffe

        self.native = native_docs()
        self.missing: set[str] = set()
        self.package = griffe.load("pykiste", search_paths=[ROOT / "python"], allow_inspection=False)
        for stub in sorted((ROOT / "python/pykiste").glob("*.pyi")):
            module = self.package if stub.stem == "__init__" else self.package[stub.stem]
            declared = griffe.visit(stub.stem, stub, stub.read_text("utf-8"))
            self._add_overloads(module, declared)
            if (code := stub.with_suffix(".py")).exists():
                written = griffe.visit(stub.stem, code, code.read_text("utf-8"))
                differs = {*map(str, declared.exports or [])} ^ {*map(str, written.exports or [])}
                self.missing |= {f"{module.path}.{name}: is in one `__all__` of the module and its stub" for name in differs}
        self.modules = _modules(self.package)
        self.pages = {"api/pykiste.md": "\n".join(self._module(self.package, "#"))}
        for module in self.modules:
            if module.name[0] != "_":
                self.pages[f"api/{module.name}.md"] = "\n".join(self._page(module, "#"))
        places = {place: page for page, text in self.pages.items() for place in re.findall(r"\{#([\w.]+)\}", text)}
        for page, text in self.pages.items():
            self.pages[page] = _linked(text, page, places)

    def _add_overloads(self, merged, stub) -> None:
        """Functions of which a stub has nothing but overloads: griffe loses them when it merges it."""
        for name, overloads in stub.overloads.items():
            if overloads and name not in merged.members:
                merged.set_member(name, overloads[0])
                overloads[0].overloads = overloads
        for name, item in stub.members.items():
            if not item.is_alias and item.is_class and name in merged.members:
                self._add_overloads(merged[name], item)

    def _page(self, module, level: str) -> Iterator[str]:
        yield from self._module(module, level)
        for below in _modules(module):
            if below.name[0] != "_":
                yield from self._page(below, "##")

    def _names(self, module) -> list[str]:
        """What a module gives away: `__all__`, or what it defines."""
        names = [str(name) for name in module.exports or []]
        if module.exports is None:
            defined = [item for item in module.members.values() if not item.is_alias and not item.is_module]
            names = [item.name for item in defined if item.name[0] != "_" and "TypeVar(" not in str(getattr(item, "value", ""))]
        return sorted(names + MORE.get(module.path, []), key=str.lower)

    def _module(self, module, level: str) -> Iterator[str]:
        yield f"{level} {module.path} {{#{module.path}}}\n\n{markdown(self._doc(module))}\n"
        described, rows = [], []
        for name in self._names(module):
            if name not in module.members:
                self.missing.add(f"{module.path}.{name}: is not defined")
                continue
            item = module.members[name]
            if item.is_alias and not item.target_path.startswith("pykiste."):
                rows.append(f"| `{name}` | `{item.target_path}` |")
                continue
            target = item.final_target if item.is_alias else item
            rows.append(f"| [`{name}`]({self._place(module, item, target)}) | {first_sentence(self._doc(target))} |")
            if not (item.is_alias or item.is_module):
                described.append(item)
        if rows:
            yield "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"
        for item in described:
            yield from self._item(item, level + "#")
        private = [item for item in module.members.values() if not item.is_alias and item.is_attribute and re.match("_[A-Z]", item.name)]
        types = [f"{item.name} = {item.value}" for item in private if " | " in str(item.value)]
        if types:
            yield f"{level}# Types of arguments\n\nSignatures above call these types by names that only type checkers know.\n"
            yield _code(types)

    def _place(self, module, item, target) -> str:
        if not item.is_alias and not item.is_module:
            return f"#{item.path}"
        page = target.path.split(".")[1]
        return f"{page}.md#{target.path}"

    def _item(self, item, level: str) -> Iterator[str]:
        yield f"{level} {item.name} {{#{item.path}}}\n"
        if item.is_function:
            yield _code(_signature(one, item.name) for one in item.overloads or [item])
        elif item.is_attribute:
            yield _code([f"{item.name} = {item.value}"])
        else:
            yield from self._class(item, level)
            return
        yield markdown(self._doc(item)) + "\n"

    def _class(self, item, level: str) -> Iterator[str]:
        members = {**item.inherited_members, **item.members}
        members = {name: member.final_target if member.is_alias else member for name, member in members.items()}
        new = members.get("__init__") or members.get("__new__")
        head = _signature(new, item.name, returns=False) if new and new.is_function else item.name
        bases = [str(base) for base in item.bases if str(base)[0] != "_"]
        fields = [one for name, one in members.items() if one.is_attribute and "property" not in one.labels and name[0] != "_"]
        fields = [f"    {one.name}: {one.annotation}" for one in fields if one.annotation]
        special = [one for one in members.values() if one.is_function and re.fullmatch(SPECIAL, one.name)]
        yield _code([f"class {head}" + (f"  # a {', '.join(bases)}" if bases else ""), *fields])
        yield markdown(self._doc(item)) + "\n"
        if doc := self.native.get(f"{item.name}.__new__"):
            yield markdown(doc) + "\n"
        if special:
            yield _code(_signature(one, one.name) for each in special for one in each.overloads or [each])
        for name, member in members.items():
            if name[0] == "_" or member.is_attribute and "property" not in member.labels:
                continue
            yield f"{level}# {item.name}.{name} {{#{item.path}.{name}}}\n"
            if member.is_attribute:
                yield _code([f"{name}: {member.annotation}" if member.annotation else name])
            else:
                own = f"{item.name}.{name}" if {"classmethod", "staticmethod"} & member.labels else name
                yield _code(_signature(one, own) for one in member.overloads or [member])
            yield markdown(self._doc(member, item)) + "\n"

    def _doc(self, item, owner=None) -> str:
        bases = owner.mro() if owner else []
        for one in [item, *(base.members[item.name] for base in bases if item.name in base.members)]:
            if one.docstring:
                return one.docstring.value
        doc = self.native.get(f"{owner.name}.{item.name}" if owner else item.name)
        if not doc and not owner and item.is_attribute and str(item.value) in self.package.members:
            doc = f"Another name of `{item.value}`."
        # What a module imports when it is asked for it.
        for module in self.modules if not doc and item.is_function else []:
            if module.name[0] == "_" and item.name in module.members and (found := module[item.name].docstring):
                doc = found.value
        # Without `__all__` the docstring of the module says what its constants are for.
        if not doc and not (item.is_attribute and not owner and item.parent.exports is None):
            self.missing.add(f"{owner.path if owner else item.parent.path}.{item.name}: has no docstring")
        return doc or ""


def _linked(text: str, page: str, places: dict[str, str]) -> str:
    """Names of public items in prose become links: `pykiste.verify`, and classes of the package or of this page."""

    def link(found: re.Match) -> str:
        name = found[1]
        for place in (name, f"pykiste.{name}", f"pykiste.{Path(page).stem}.{name}"):
            if place in places and (place == name or name[0].isupper()):
                target = "" if places[place] == page else Path(places[place]).name
                return f"[{found[0]}]({target}#{place})"
        return found[0]

    parts = re.split(r"(^```.*?^```$|^#[^\n]*$)", text, flags=re.M | re.S)
    return "".join(part if n % 2 else re.sub(r"(?<!\[)`([\w.]+)`", link, part) for n, part in enumerate(parts))


def _modules(module) -> list:
    found = [item for item in module.members.values() if not item.is_alias and item.is_module]
    return sorted(found, key=lambda item: item.name)


def _code(lines) -> str:
    return "\n".join(["```python", *lines, "```\n"])


def _signature(function, name: str, returns: bool = True) -> str:
    """A function as one writes it down, on several lines if it is long."""
    words, star = [], False
    for parameter in function.parameters:
        kind = str(parameter.kind.value)
        if parameter.name in ("self", "cls"):
            continue
        if kind == "keyword-only" and not star:
            words.append("*")
        star |= kind in ("keyword-only", "variadic positional")
        word = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "") + parameter.name
        word += f": {parameter.annotation}" if parameter.annotation else ""
        if parameter.default is not None and "variadic" not in kind:
            word += (" = " if parameter.annotation else "=") + str(parameter.default)
        words.append(word)
    result = f" -> {function.returns}" if returns and function.returns else ""
    line = f"{name}({', '.join(words)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])
