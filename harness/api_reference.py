"""The pages of the Python API, from the source of the public names: `python -m harness.api_reference` writes them.

Plain Markdown, so that they are read in the repository as on the site.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference" / "api"
_WIDTH = 100
_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):\n((?:(?:    .*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}[\w., ]+): ", re.MULTILINE)
_STUB = ROOT / "storekeeper" / "__init__.pyi"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the public names of some rooms, and the public modules.

    Attributes:
        title: its heading.
        introduction: the text below it.
        rooms: beginnings of the modules whose names it has, as the stub imports them.
        modules: public modules; all that they define is on the page.
    """

    title: str
    introduction: str
    rooms: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


PAGES = {
    "topology": Page(
        "Describe an app",
        "Import from `storekeeper`. [Topologies](../topologies.md) and [tables](../tables.md) explain them.",
        ("storekeeper.topology", "storekeeper.apps", "storekeeper.generations"),
    ),
    "testkit": Page(
        "Test an app",
        "Import from `storekeeper.testkit`. [Your first app](../../tutorial/first-app.md) uses it.",
        modules=tuple(f"storekeeper.testkit.{name}" for name in ("plain_driver", "spark_driver", "fixtures")),
    ),
    "clients": Page(
        "Query nodes",
        "Import from `storekeeper`. [Clients](../clients.md) explains errors, retries and freshness. The stores of\n"
        "both clients have the same methods; those of `AsyncStateClient` are awaited. In a signature, `Query[T]`\n"
        "stands for a `Reading[T]`, and `Query[Page[T]]` for `Rows[T]` or `AsyncRows[T]`.",
        ("storekeeper.client", "storekeeper.protocol"),
        ("storekeeper.client.stores", "storekeeper.client.queries"),
    ),
    "stores": Page(
        "Stores and serdes",
        "Import from `storekeeper`. [Stores](../stores.md) explains which kind, backend and wrapper fits.",
        ("storekeeper.stores", "storekeeper.serdes"),
    ),
    "schemas": Page(
        "Values by the schemas of a registry",
        "Import from the modules that are named here. [Use a schema registry](../../how-to/use-a-schema-registry.md)\n"
        "has the steps.",
        modules=tuple(f"storekeeper.schemas.{name}" for name in ("avro", "protobuf", "json_schema")),
    ),
    "errors": Page(
        "Errors",
        "Import from `storekeeper.errors`.",
        modules=("storekeeper.errors",),
    ),
}


def pages() -> dict[Path, str]:
    """The text of each page by its file."""
    return {FOLDER / f"{name}.md": _text(page) for name, page in PAGES.items()}


def unplaced() -> set[str]:
    """The public names that are on no page."""
    placed = {name for page in PAGES.values() for _, name in _public(page)}
    return {name for _, name in _stub()} - placed - _defined("storekeeper.errors")


@cache
def _stub() -> tuple[tuple[str, str], ...]:
    """Module and name of each public name."""
    imports = [one for one in ast.parse(_STUB.read_text("utf-8")).body if isinstance(one, ast.ImportFrom)]
    return tuple((str(one.module), alias.name) for one in imports for alias in one.names)


def _public(page: Page) -> list[tuple[str, str]]:
    rooms = tuple(f"{room}." for room in page.rooms)
    return [(module, name) for module, name in _stub() if f"{module}.".startswith(rooms)] if rooms else []


def _text(page: Page) -> str:
    parts = [f"# {page.title}\n\n{page.introduction}\n"]
    named = [(inspect.unwrap(getattr(import_module(module), name)), name) for module, name in _public(page)]
    for thing, name in sorted(named, key=lambda one: one[1].lower()):
        parts += _described(thing, name)
    for module in page.modules:
        loaded = import_module(module)
        parts.append(f"## Module `{module}`\n\n{_prose(loaded.__doc__)}\n")
        shown = {name for _, name in named}
        for name in _in_order(loaded):
            if name not in shown:
                parts += _described(inspect.unwrap(getattr(loaded, name)), name, "###")
    return "\n".join(parts)


def _defined(module: str) -> set[str]:
    return set(_in_order(import_module(module)))


def _in_order(module: ModuleType) -> list[str]:
    """The public classes and functions of a module, in its order."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [one.name for one in _tree(module.__name__).body if isinstance(one, kinds) and not one.name.startswith("_")]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(str(import_module(module).__file__)).read_text("utf-8"))


def _described(thing: Any, name: str, heading: str = "##") -> Iterator[str]:
    """A class with its methods, a function, or an alias of a type."""
    if inspect.isclass(thing):
        yield _part(f"{heading} `{name}`", _class_line(thing), thing.__doc__, _fields(thing))
        for method in _methods(thing):
            yield _part(f"{heading}# `{name}.{method.name}`", _header(method), ast.get_docstring(method))
    elif inspect.isfunction(thing):
        found = _node(thing.__module__, thing.__name__)
        yield _part(f"{heading} `{name}`", _header(found), thing.__doc__)
    else:
        yield _part(f"{heading} `{name}`", f"{name} = {_value(thing)}", None)


def _value(thing: Any) -> str:
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(thing)).replace("<class '", "").replace("'>", "")


def _node(module: str, name: str) -> Any:
    for one in _tree(module).body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name:
            return one
    msg = f"{module} does not define {name}"
    raise LookupError(msg)


def _methods(thing: type) -> Iterator[Any]:
    """The public methods of a class, with those of the classes of ours that it is made of."""
    seen: set[str] = set()
    for owner in thing.__mro__:
        if not owner.__module__.startswith("storekeeper."):
            continue
        for one in _node(owner.__module__, owner.__name__).body:
            is_method = isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_overload(one)
            if is_method and not one.name.startswith("_") and one.name not in seen:
                seen.add(one.name)
                yield one


def _is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each) == "overload" for each in function.decorator_list)


def _class_line(thing: type) -> str:
    found = _node(thing.__module__, thing.__name__)
    init = next((one for one in found.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if init is not None:
        return _wrapped(thing.__name__, init.args, None)
    bases = ", ".join(map(ast.unparse, found.bases))
    return f"class {thing.__name__}({bases})" if bases else f"class {thing.__name__}"


def _fields(thing: type) -> str:
    """The public fields of a class that has no method to make it, or the members of an enumeration."""
    lines = []
    for one in _node(thing.__module__, thing.__name__).body:
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"):
            is_setting = isinstance(one.value, ast.Call) and ast.unparse(one.value.func) == "Field"
            lines.append(
                f"{ast.unparse(one.target)}: {ast.unparse(one.annotation)}" if is_setting else ast.unparse(one)
            )
        elif isinstance(one, ast.Assign) and ast.unparse(one.targets[0]).isupper():
            lines.append(ast.unparse(one))
    return "\n".join(f"    {line}" for line in lines)


def _header(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = [ast.unparse(each) for each in function.decorator_list]
    shown = [each for each in decorators if each in {"property", "staticmethod", "classmethod"}]
    before = "async def " if isinstance(function, ast.AsyncFunctionDef) else "def "
    lines = [f"@{each}" for each in shown]
    return "\n".join([*lines, _wrapped(before + function.name, function.args, function.returns)])


def _wrapped(name: str, arguments: ast.arguments, returns: ast.expr | None) -> str:
    """A signature on one line, or with a line for each argument."""
    pieces = [piece for piece in _pieces(arguments) if piece not in {"self", "cls"}]
    while pieces[-1:] == ["/"] or pieces[-1:] == ["*"]:
        pieces.pop()
    result = "" if returns is None else f" -> {ast.unparse(returns)}"
    line = f"{name}({', '.join(pieces)}){result}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n{''.join(f'    {piece},{chr(10)}' for piece in pieces)}){result}"


def _pieces(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True), start=1):
        yield _piece(argument, default)
        if index == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_piece(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _piece(argument, default)
    if arguments.kwarg is not None:
        yield f"**{_piece(arguments.kwarg, None)}"


def _piece(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    value = "" if default is None else f" = {ast.unparse(default)}" if kind else f"={ast.unparse(default)}"
    return argument.arg + kind + value


def _part(heading: str, code: str, docstring: str | None, more: str = "") -> str:
    lines = f"{code}\n{more}".rstrip()
    return f"{heading}\n\n```python\n{lines}\n```\n\n{_prose(docstring)}".rstrip() + "\n"


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown: its sections become lists."""
    text = inspect.cleandoc(docstring or "") + "\n"
    return _SECTION.sub(_section, text).strip()


def _section(found: re.Match[str]) -> str:
    title, body = found[1], textwrap.dedent(found[2]).strip("\n")
    if not _ENTRY.match(body):
        return f"**{title}:** {' '.join(body.split())}\n"
    entries: list[str] = []
    for line in body.splitlines():
        entry = _ENTRY.match(line)
        if entry is not None:
            entries.append(f"- `{entry[1]}`: {line[entry.end() :]}")
        else:
            entries.append(f"  {line.strip()}" if line.strip() else "")
    return f"**{title}:**\n\n" + "\n".join(entries) + "\n"


if __name__ == "__main__":
    for path, page in pages().items():
        path.write_text(page, "utf-8")
