"""The definition of a store that a node serves: its changelog topic and its kind.

As text, in `STOREKEEPER_STORES`: `name=topic[:kind[:score_field][:schemas]],…`. A topic's name can't hold a colon.
`schemas` says that the store's values are by schemas of a registry.

| kind       | changelog key                                     | asked by                           |
|------------|---------------------------------------------------|------------------------------------|
| `keyvalue` | the key                                           | key, keys, range, prefix, all      |
| `ranked`   | the key; rows are also ordered by `score_field`   | the same, top N, rank, score range |
| `window`   | row key of `storekeeper/serdes/keys/windows.py`                | key and time, all by time          |
| `session`  | row key of `storekeeper/serdes/keys/sessions.py`               | key, active now, ended by time     |
| `versioned`| row key of `storekeeper/serdes/keys/versions.py`               | key, as of a time; its versions    |
| `global`   | the key; every node holds every partition         | as `keyvalue`                      |

Rows with a TTL are of kind `keyvalue`: their app deletes them as they expire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.names import checked_name


class ServedKind(StrEnum):
    """How a store's rows are keyed and asked for."""

    KEY_VALUE = "keyvalue"
    RANKED = "ranked"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    GLOBAL = "global"


_BY_SCHEMA = "schemas"
WINDOWED = frozenset({ServedKind.WINDOW, ServedKind.SESSION})
"""Kinds whose row keys have the times of a window behind the key."""


@dataclass(frozen=True, slots=True)
class StoreDefinition:
    """One store that a node serves.

    Attributes:
        name: the store's name.
        topic: its changelog topic.
        kind: how its rows are keyed.
        score_field: the field of its JSON values that rows are ranked by; None unless it is ranked.
        by_schema: whether its values are in the wire format of a schema registry, so that nodes show them as JSON.
    """

    name: str
    topic: str
    kind: ServedKind = ServedKind.KEY_VALUE
    score_field: str | None = None
    by_schema: bool = False

    def __post_init__(self) -> None:
        checked_name(self.name)
        checked_name(self.topic)
        if (self.score_field is not None) != (self.kind is ServedKind.RANKED):
            msg = f"store {self.name}: a ranked store needs a score field, and only a ranked store has one"
            raise InvalidArgumentError(msg)

    def __str__(self) -> str:
        """As `parse_definitions` reads it."""
        parts = [self.topic]
        if self.by_schema or self.kind is not ServedKind.KEY_VALUE:
            parts.append(self.kind.value)
        parts += filter(None, [self.score_field, _BY_SCHEMA if self.by_schema else None])
        return f"{self.name}={':'.join(parts)}"


def parse_definitions(text: str) -> Mapping[str, StoreDefinition]:
    """Reads `name=topic[:kind[:score_field][:schemas]],…`: definitions by store name, in the order given.

    Raises:
        ValueError: if it is invalid; the message is a sentence, as settings require.
    """
    definitions: dict[str, StoreDefinition] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        definition = _parsed(part)
        if definition.name in definitions:
            raise ValueError(f"{definition.name!r} is there twice")
        if same := [name for name, other in definitions.items() if other.topic == definition.topic]:
            msg = f"{same[0]!r} and {definition.name!r} have the same topic {definition.topic}: a node serves it once"
            raise ValueError(msg)
        definitions[definition.name] = definition
    return definitions


def _parsed(part: str) -> StoreDefinition:
    name, _, rest = part.partition("=")
    topic, *more = (piece.strip() for piece in rest.split(":"))
    ranked = more[:1] == [ServedKind.RANKED.value]
    most = 3 if ranked else 2
    if not topic or len(more) > most or more[2:] not in ([], [_BY_SCHEMA]):
        raise ValueError(f"{part!r} is not of the form name=topic[:kind[:score_field][:schemas]]")
    kinds = [kind.value for kind in ServedKind]
    if more and more[0] not in kinds:
        raise ValueError(f"{part!r} names no kind of store: choose one of {', '.join(kinds)}")
    kind = ServedKind(more[0]) if more else ServedKind.KEY_VALUE
    # The only name behind `ranked` is that of its field, which may be `schemas` too.
    by_schema = len(more) == most and more[-1] == _BY_SCHEMA
    score_field = more[1] if len(more) > 1 and (ranked or not by_schema) else None
    try:
        return StoreDefinition(name.strip(), topic, kind, score_field, by_schema)
    except (InvalidArgumentError, InvalidNameError) as error:
        raise ValueError(str(error)) from error
