"""Codec cases: what JSON takes and what it refuses, and values that no serde wrote."""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import uuid
from typing import Any, ClassVar

from storekeeper.errors import SerializationError
from storekeeper.serdes.json import JsonSerde
from tests.conformance.adapter import MismatchError, UnsupportedCaseError
from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.backend import Backend

_OBJECTS: dict[str, Any] = {
    "object": object,
    "datetime.now": lambda zone=dt.UTC: dt.datetime.now(zone),
    "datetime.datetime.now": lambda zone=dt.UTC: dt.datetime.now(zone),
    "date.today": lambda: dt.datetime.now(dt.UTC).date(),
    "timedelta": dt.timedelta,
    "set": set,
    "frozenset": frozenset,
    "bytes": bytes,
    "bytearray": bytearray,
    "complex": complex,
    "float": float,
    "Decimal": decimal.Decimal,
    "uuid4": uuid.uuid4,
    "uuid.uuid4": uuid.uuid4,
    "UUID": uuid.UUID,
    "lambda": lambda: lambda: None,
}
_NAMES = {"utc": dt.UTC, "UTC": dt.UTC, "timezone.utc": dt.UTC}


class CodecAdapter(KeyValueAdapter):
    """JSON on its own, and a store whose bytes are written behind its back."""

    kinds: ClassVar[tuple[str, ...]] = ("codec",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__({"value_type": "json", **config}, backend)
        self.json = JsonSerde()

    def do_json_codec_rejects(self, expression: str) -> None:
        value = _evaluated(ast.parse(expression, mode="eval").body)
        try:
            self.json.serialize(value)
        except SerializationError:
            return
        msg = f"JSON took {value!r}"
        raise MismatchError(msg)

    def do_json_codec_roundtrip(self, value: Any) -> None:
        result = self.json.deserialize(self.json.serialize(value))
        if result != value:
            msg = f"JSON made {result!r} of {value!r}"
            raise MismatchError(msg)

    def do_raw_put(self, key: Any, data: Any) -> None:
        raw = data if isinstance(data, bytes) else str(data).encode()
        self.task.backend.write([(self.key_serde.serialize(key), raw)])


def _evaluated(node: ast.expr) -> Any:
    """The value of a small expression: literals and calls of the objects above, nothing else."""
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    if isinstance(node, ast.Call) and name in _OBJECTS:
        return _OBJECTS[name](*map(_evaluated, node.args))
    if name in _NAMES:
        return _NAMES[name]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = [_evaluated(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items) if isinstance(node, ast.Tuple) else set(items)
    if isinstance(node, ast.Dict):
        keys = [None if key is None else _evaluated(key) for key in node.keys]
        return dict(zip(keys, map(_evaluated, node.values), strict=True))
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        msg = f"unknown expression {name}"
        raise UnsupportedCaseError(msg) from error
