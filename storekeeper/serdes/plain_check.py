"""Compiled checks: whether a value surely reads as it was written, seen from its types alone.

A check takes a tenth of the time that writing and reading takes. It may say no to a value that would read equal, and
never yes to one that would not: where it says no, the value is written, read and compared.

The source of a check follows from the type, as that of a data class's methods does: it has names of fields, which are
identifiers, and bounds, which are numbers. Everything else is in variables. No data of a record gets there.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import keyword
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec import inspect

Check = Callable[[Any], bool]

_DEEPEST = 500
"""Nested further, a document may be written at one place and be too deep to be read at another."""
_INT = "-9223372036854775809 < {0} < 9223372036854775808"
_FLOAT = "-inf < {0} < inf"
_NEVER = "False"
_SCALARS: dict[type[inspect.Type], str] = {
    inspect.NoneType: "{0} is None",
    inspect.BoolType: "type({0}) is bool",
    inspect.DecimalType: "type({0}) is Decimal and {0}.is_finite() and ({0} or not {0}.is_signed())",
    inspect.DateType: "type({0}) is date",
    inspect.UUIDType: "type({0}) is UUID",
    inspect.AnyType: "is_json({0})",
}
_UNAMBIGUOUS = (
    inspect.NoneType, inspect.BoolType, inspect.IntType, inspect.FloatType, inspect.StrType, inspect.ListType,
    inspect.DictType, inspect.StructType,
)  # fmt: skip
"""Kinds that can't be taken for each other in one union."""


def is_json(value: Any, depth: int = 0) -> bool:  # noqa: PLR0911 (one for each kind: it runs for every part)
    """Whether a value is a JSON document of exact types: None, bool, int of 64 bits, finite float, str, list, dict."""
    kind = type(value)
    if kind is str:
        return value.isascii() or is_text(value)
    if kind is int:
        return -9223372036854775809 < value < 9223372036854775808
    if kind is float:
        return float("-inf") < value < float("inf")
    if kind is dict:
        if depth > _DEEPEST:
            return False
        for key, inner in value.items():
            if type(key) is not str or not (key.isascii() or is_text(key)) or not is_json(inner, depth + 1):
                return False
        return True
    if kind is list:
        return depth <= _DEEPEST and all(is_json(inner, depth + 1) for inner in value)
    return value is None or kind is bool


def is_text(value: str) -> bool:
    """Whether a text has no lone surrogates, which UTF-8 has no bytes for."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_check(described: inspect.Type) -> Check:
    """The check of a type."""
    compiler = _Compiler()
    body = compiler.body(described)
    # A value that the check can't deal with, such as a list in a Literal, is not plain. A try costs nothing without it.
    source = [
        *compiler.source, "def check(value):", "    try:", *(f"        {line}" for line in body),
        "    except Exception:", "        return False",
    ]  # fmt: skip
    exec("\n".join(source), compiler.names)  # noqa: S102 (made of type names and numbers alone)
    check: Check = compiler.names["check"]
    return check


_WITH_PARTS = (
    inspect.StructType, inspect.DataclassType, inspect.NamedTupleType, inspect.ListType, inspect.VarTupleType,
    inspect.TupleType, inspect.DictType, inspect.TypedDictType,
)  # fmt: skip


class _Compiler:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "inf": float("inf"), "Decimal": Decimal, "date": dt.date, "datetime": dt.datetime, "utc": dt.UTC,
            "UUID": UUID, "is_json": is_json, "is_text": is_text,
        }  # fmt: skip
        self.source: list[str] = []
        self._functions: dict[int, tuple[inspect.Type, str]] = {}
        self._numbers = 0

    def condition(self, kind: inspect.Type, value: str) -> str:  # noqa: PLR0911 (one for each kind)
        """A condition on the variable `value`."""
        if isinstance(kind, inspect.Metadata):
            return self.condition(kind.type, value)
        fixed = _SCALARS.get(type(kind))
        if fixed is not None:
            return fixed.format(value)
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return _number(kind, value)
        if isinstance(kind, inspect.StrType):
            plain = f"type({value}) is str and ({value}.isascii() or is_text({value}))"
            return _NEVER if kind.pattern is not None else plain + _length(kind, value)
        if isinstance(kind, inspect.BytesType):
            return f"type({value}) is bytes" + _length(kind, value)
        if isinstance(kind, inspect.DateTimeType):
            return _datetime(kind, value)
        if isinstance(kind, inspect.EnumType):
            return _NEVER if issubclass(kind.cls, enum.Flag) else f"type({value}) is {self._name(kind.cls)}"
        if isinstance(kind, inspect.LiteralType):
            pairs = {(type(known), known) for known in kind.values}
            return f"(type({value}), {value}) in {self._name(pairs)}"
        if isinstance(kind, inspect.UnionType):
            return self._union(kind, value)
        return f"{self._function(kind)}({value})"

    def _union(self, kind: inspect.UnionType, value: str) -> str:
        present = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        if len(present) > 1 and not all(isinstance(_bare(part), _UNAMBIGUOUS) for part in present):
            return _NEVER
        return " or ".join(f"({self.condition(part, value)})" for part in kind.types)

    def _function(self, kind: inspect.Type) -> str:
        """The name of a function that checks values of a type with parts."""
        known = self._functions.get(id(kind))
        if known is not None:  # a type may contain itself
            return known[1]
        name = self._fresh("part")
        self._functions[id(kind)] = (kind, name)
        self.source += [f"def {name}(value):", *(f"    {line}" for line in self._parts(kind))]
        return name

    def body(self, kind: inspect.Type) -> list[str]:
        """The body of a function that checks values of a type."""
        kind = _bare(kind)
        return self._parts(kind) if isinstance(kind, _WITH_PARTS) else [f"return {self.condition(kind, 'value')}"]

    def _parts(self, kind: inspect.Type) -> list[str]:
        match kind:
            case inspect.StructType() | inspect.DataclassType() | inspect.NamedTupleType():
                return self._object(kind)
            case inspect.ListType() | inspect.VarTupleType():
                of = "list" if isinstance(kind, inspect.ListType) else "tuple"
                inner = self._fresh("inner")
                return [
                    f"if not (type(value) is {of}{_length(kind, 'value')}): return False",
                    f"for {inner} in value:",
                    f"    if not ({self.condition(kind.item_type, inner)}): return False",
                    "return True",
                ]
            case inspect.TupleType():
                parts = [self._part(part, f"value[{place}]") for place, part in enumerate(kind.item_types)]
                return [f"return {' and '.join([f'type(value) is tuple and len(value) == {len(parts)}', *parts])}"]
            case inspect.DictType():
                return self._dict(kind)
            case inspect.TypedDictType():
                return self._typed_dict(kind)
        return ["return False"]

    def _object(self, kind: Any) -> list[str]:
        cls = typing.get_origin(kind.cls) or kind.cls
        if not _is_as_its_fields(kind, cls):
            return ["return False"]
        parts = [self._part(field.type, f"value.{field.name}") for field in kind.fields]
        return [f"return {' and '.join([f'type(value) is {self._name(cls)}', *parts])}"]

    def _dict(self, kind: inspect.DictType) -> list[str]:
        keys, key, inner = _bare(kind.key_type), self._fresh("key"), self._fresh("inner")
        if not isinstance(keys, inspect.StrType | inspect.IntType | inspect.AnyType):
            return ["return False"]
        key_is_plain = self.condition(inspect.StrType() if isinstance(keys, inspect.AnyType) else keys, key)
        return [
            f"if not (type(value) is dict{_length(kind, 'value')}): return False",
            f"for {key}, {inner} in value.items():",
            f"    if not ({key_is_plain}) or not ({self.condition(kind.value_type, inner)}): return False",
            "return True",
        ]

    def _typed_dict(self, kind: inspect.TypedDictType) -> list[str]:
        names = self._name({field.encode_name for field in kind.fields})
        parts = [self._part(field.type, f"value[{self._name(field.encode_name)}]") for field in kind.fields]
        return [f"return {' and '.join([f'type(value) is dict and value.keys() == {names}', *parts])}"]

    def _part(self, kind: inspect.Type, place: str) -> str:
        inner = self._fresh("inner")
        condition = self.condition(kind, inner)
        # The first use of the variable sets it.
        return f"({condition.replace(inner, f'({inner} := {place})', 1)})"

    def _name(self, value: Any) -> str:
        name = self._fresh("known")
        self.names[name] = value
        return name

    def _fresh(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}_{self._numbers}_"


def _bare(kind: inspect.Type) -> inspect.Type:
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _is_attribute(field: Any) -> bool:
    name: str = field.name
    return name.isidentifier() and not keyword.iskeyword(name)


def _is_as_its_fields(kind: Any, cls: Any) -> bool:
    """Whether an object is made of its fields alone, as they are given."""
    if hasattr(cls, "__post_init__") or not all(map(_is_attribute, kind.fields)):
        return False
    if isinstance(kind, inspect.StructType):
        return not cls.__struct_config__.dict
    if isinstance(kind, inspect.NamedTupleType):
        return len(cls._fields) == len(kind.fields)
    known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return len(known) == len(kind.fields) and all(field.init for field in known)


def _number(kind: Any, value: str) -> str:
    if kind.multiple_of is not None:
        return _NEVER
    exact, within = ("int", _INT) if isinstance(kind, inspect.IntType) else ("float", _FLOAT)
    bounds = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    limits = [f"{value} {sign} {getattr(kind, name)!r}" for name, sign in bounds if getattr(kind, name) is not None]
    return " and ".join([f"type({value}) is {exact}", within.format(value), *limits])


def _length(kind: Any, value: str) -> str:
    least = "" if kind.min_length is None else f" and len({value}) >= {kind.min_length}"
    return least if kind.max_length is None else f"{least} and len({value}) <= {kind.max_length}"


def _datetime(kind: inspect.DateTimeType, value: str) -> str:
    zones = {None: f"({value}.tzinfo is None or {value}.tzinfo is utc)", True: f"{value}.tzinfo is utc"}
    zone = zones.get(kind.tz, f"{value}.tzinfo is None")
    return f"type({value}) is datetime and {zone} and not {value}.fold"
