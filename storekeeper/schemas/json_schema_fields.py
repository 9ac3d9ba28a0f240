"""The properties of a JSON Schema as columns.

Only what the schema's rules enforce counts. So a text with a `format` is text, and what other rules combine, such as
`oneOf` of several types, is text in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from storekeeper.schemas.column_fields import JSON_TEXT, common_type
from storekeeper.serdes.value_field import ValueField

_SQL_TYPES = {"boolean": "boolean", "integer": "bigint", "number": "double", "string": "string"}
_NULL = "null"
_LONGEST_PATH = 16
_Types = frozenset[str]
"""The types of JSON that a value may have; none if the schema doesn't say."""


def json_schema_fields(schema: Any) -> tuple[ValueField, ...]:
    """The properties of an object; none of any other schema. One that isn't required, or may be null, is nullable."""
    rule = _resolved(schema, schema)
    properties, required = rule.get("properties"), rule.get("required")
    if not isinstance(properties, dict):
        return ()
    due = frozenset(required if isinstance(required, list) else ())
    return tuple(_field(name, rule, schema, name in due) for name, rule in properties.items())


def _field(name: str, rule: Any, schema: Any, is_due: bool) -> ValueField:
    resolved, types = _resolved(rule, schema), _types(rule, schema)
    least = resolved.get("minimum", resolved.get("exclusiveMinimum"))
    meaning = resolved.get("description")
    return ValueField(
        name,
        common_type([_SQL_TYPES.get(kind, JSON_TEXT) for kind in sorted(types - {_NULL})] or [JSON_TEXT]),
        nullable=not is_due or not types or _NULL in types,
        never_negative=isinstance(least, int | float) and least >= 0,
        meaning=meaning if isinstance(meaning, str) else "",
    )


def _types(rule: Any, schema: Any) -> _Types:
    resolved = _resolved(rule, schema)
    kinds = resolved.get("type", [])
    named = frozenset([kinds] if isinstance(kinds, str) else kinds)
    parts = resolved.get("anyOf", resolved.get("oneOf"))
    return named if named or not isinstance(parts, list) else _of_all([_types(part, schema) for part in parts])


def _of_all(parts: Iterable[_Types]) -> _Types:
    known = list(parts)
    return frozenset().union(*known) if all(known) else frozenset()


def _resolved(rule: Any, schema: Any) -> Mapping[str, Any]:
    """The rule, or the one that it refers to in the same schema; an empty one if there is none."""
    for _ in range(_LONGEST_PATH):
        if not isinstance(rule, dict):
            break
        if "$ref" not in rule:
            return rule
        rule = _at(str(rule["$ref"]), schema)
    return {}


def _at(reference: str, schema: Any) -> Any:
    if not reference.startswith("#/"):
        return None
    place = schema
    for part in reference.removeprefix("#/").split("/"):
        place = place.get(part) if isinstance(place, dict) else None
    return place
