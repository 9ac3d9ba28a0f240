"""Defaults of an Avro schema as values.

A schema has them in JSON: a decimal as the characters of its bytes, a time as a number. fastavro gives them to readers,
and takes them from writers, as they are there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro

_BYTES = ("bytes", "fixed")


def convert_defaults(parsed: Any) -> None:
    """Puts a value in the place of each default of a parsed schema. One that doesn't fit its type stays."""
    named = dict(parsed.get("__named_schemas", {})) if isinstance(parsed, dict) else {}
    for record in _records([parsed, *named.values()]):
        for field in record["fields"]:
            if "default" in field:
                field["default"] = _value(field["default"], field["type"], named)


def has_shared_defaults(parsed: Any) -> bool:
    """Whether a default can be changed in place: readers give the same object again and again."""
    records = _records([parsed, *(parsed.get("__named_schemas", {}).values() if isinstance(parsed, dict) else ())])
    return any(isinstance(field.get("default"), dict | list) for record in records for field in record["fields"])


def _records(waiting: list[Any]) -> Iterator[dict[str, Any]]:
    """The records in schemas, each once."""
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        waiting += [part[name] for name in ("type", "items", "values") if name in part]
        if part.get("type") in {"record", "error"}:
            waiting += [field["type"] for field in part["fields"]]
            yield part


def _value(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:
    for one in kind if isinstance(kind, list) else [kind]:  # of a union, the first one that fits
        try:
            return _read(_plain(default, one, named), one, named)
        except Exception:  # noqa: S112 (fastavro raises many)
            continue
    return default


def _read(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:
    """A default as it is read when it was written."""
    schema = {
        "type": "record", "name": "one.Default", "fields": [{"name": "default", "type": kind}],
        "__fastavro_parsed": True, "__named_schemas": dict(named),
    }  # fmt: skip
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, {"default": default}, strict=True)
    buffer.seek(0)
    record: Any = fastavro.schemaless_reader(buffer, schema, None)
    return record["default"]


def _plain(default: Any, kind: Any, named: Mapping[str, Any]) -> Any:  # noqa: PLR0911 (one for each kind)
    """A default with bytes in place of the characters for them."""
    if isinstance(kind, list):
        return _plain(default, kind[0], named)
    if isinstance(kind, str) and kind in named:
        return _plain(default, named[kind], named)
    shape = kind.get("type") if isinstance(kind, dict) else kind
    if shape in _BYTES:
        return default.encode("latin-1") if isinstance(default, str) else default
    if isinstance(shape, dict | list):
        return _plain(default, shape, named)
    if shape == "array":
        return [_plain(part, kind["items"], named) for part in default]
    if shape == "map":
        return {key: _plain(part, kind["values"], named) for key, part in default.items()}
    if shape in {"record", "error"}:
        return {
            field["name"]: _plain(default.get(field["name"], field.get("default")), field["type"], named)
            for field in kind["fields"]
        }
    return default
