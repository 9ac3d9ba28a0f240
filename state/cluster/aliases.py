"""Which changelog stands behind a store's name: signed records on a compacted topic, the last one per store counts.

A migration makes a store's rows anew in another topic. Nodes read these records and warm that topic beside the one
that serves; they change over once it is ready everywhere. The record itself is the only switch: there is no other.

| step       | `topic` | `previous_topic` | `prepare` | serves                                              |
|------------|---------|------------------|-----------|-----------------------------------------------------|
| prepare    | new     | old              | true      | old; new is restored beside it                      |
| cut over   | new     | old              | false     | new, once every partition is ready; old stays warm  |
| roll back  | old     | new              | false     | old; new stays warm                                 |
| retire     | new     | none             | false     | new; old is let go of                               |

A store that is split has *parts*: stores with names and topics of their own in place of its one topic. They are said in
the record of the store that they are made of, and so all of them change over at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from state.errors import InvalidArgumentError, InvalidNameError
from state.names import checked_name
from state.security.cluster_secret import sign, verified

ALIASES_TOPIC = "storekeeper-aliases"
_PURPOSE = "alias"
_LONGEST_BYTES = 1 << 16
_MOST_PARTS = 64
_HIGHEST_GENERATION = 1_000_000
_LONGEST_NAMES = 200
"""Store and topic together name a directory, see `state.names.variant_name`."""


class AliasError(InvalidArgumentError):
    """A record is no alias of this cluster. Nodes ignore it and say so in their log."""


@dataclass(frozen=True, slots=True)
class Alias:
    """The changelog that stands behind a store's name.

    Attributes:
        store: the store's name, as callers ask for it.
        generation: the generation of the app that writes `topic`; 1 or more.
        topic: the changelog that serves, or with `prepare` the one that is to be warmed.
        previous_topic: the one that served before and stays warm, or with `prepare` the one that serves; None if
            there is none to keep.
        at_ms: when this was decided, epoch milliseconds; an alias with an earlier time than the known one is ignored.
        prepare: warm `topic`, and go on answering from `previous_topic`.
        parts: topic by store, where the rows are in other stores than this one; `topic` is then the first of them.
            Empty: all of them are in this store.
        previous_parts: the same of `previous_topic`.
        former: names that were answered once and are not any more, since their generation was retired.
    """

    store: str
    generation: int
    topic: str
    previous_topic: str | None
    at_ms: int
    prepare: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    previous_parts: Mapping[str, str] = field(default_factory=dict)
    former: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sides = ((self.topic, self.parts), (self.previous_topic, self.previous_parts))
        self._check_names()
        if any(parts and topic not in parts.values() for topic, parts in sides):
            msg = f"the alias of {self.store} names parts, and a topic that is none of theirs"
            raise AliasError(msg)
        if set(self.parts.values()) & set(self.previous_parts.values()):
            msg = f"the alias of {self.store} names the same topic before the change and after it"
            raise AliasError(msg)
        if not 1 <= self.generation <= _HIGHEST_GENERATION or self.at_ms < 0:
            msg = f"the alias of {self.store} has generation {self.generation} at {self.at_ms} ms: neither is below 1"
            raise AliasError(msg)
        if self.topic == self.previous_topic:
            msg = f"the alias of {self.store} names {self.topic} as the topic before itself"
            raise AliasError(msg)
        if self.prepare and self.previous_topic is None:
            msg = f"the alias of {self.store} prepares {self.topic}, but names no topic that serves meanwhile"
            raise AliasError(msg)

    def _check_names(self) -> None:
        sides = [{self.store: self.topic}, self.parts, self.previous_parts]
        if self.previous_topic is not None:
            sides.append({self.store: self.previous_topic})
        names = [pair for side in sides for pair in side.items()]
        try:
            for name in (self.store, *(name for pair in names for name in pair), *self.former):
                checked_name(name)
        except InvalidNameError as error:
            raise AliasError(str(error)) from error
        if max(len(store) + len(topic) for store, topic in names) > _LONGEST_NAMES:
            msg = f"the names of store {self.store[:40]} and its topic have over {_LONGEST_NAMES} characters together"
            raise AliasError(msg)
        if max(map(len, (self.parts, self.previous_parts, self.former))) > _MOST_PARTS:
            msg = f"the alias of {self.store} names more than {_MOST_PARTS} stores: split into fewer"
            raise AliasError(msg)

    @property
    def serving_topic(self) -> str:
        """The topic that reads are to be answered from; the first of them, if there are several."""
        return self.previous_topic if self.prepare and self.previous_topic is not None else self.topic

    @property
    def serving(self) -> Mapping[str, str]:
        """Topic by store that reads are to be answered from."""
        parts = self.previous_parts if self.prepare else self.parts
        return parts or {self.store: self.serving_topic}

    @property
    def warm_topic(self) -> str | None:
        """The topic that is to be held ready beside it; None if there is none."""
        return self.topic if self.prepare else self.previous_topic

    @property
    def warm(self) -> Mapping[str, str]:
        """Topic by store that are to be held ready beside what serves; none if nothing is."""
        topic = self.warm_topic
        if topic is None:
            return {}
        return (self.parts if self.prepare else self.previous_parts) or {self.store: topic}

    def encode(self) -> bytes:
        """The record's value."""
        return orjson.dumps(
            {
                "store": self.store,
                "generation": self.generation,
                "topic": self.topic,
                "previous_topic": self.previous_topic,
                "at_ms": self.at_ms,
                "prepare": self.prepare,
                "parts": dict(self.parts),
                "previous_parts": dict(self.previous_parts),
                "former": list(self.former),
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            AliasError: if it is no alias.
        """
        if len(value) > _LONGEST_BYTES:
            msg = f"an alias is longer than {_LONGEST_BYTES} bytes"
            raise AliasError(msg)
        try:
            fields = orjson.loads(value)
            return cls(
                store=_text(fields["store"]),
                generation=_number(fields["generation"]),
                topic=_text(fields["topic"]),
                previous_topic=None if fields["previous_topic"] is None else _text(fields["previous_topic"]),
                at_ms=_number(fields["at_ms"]),
                prepare=fields.get("prepare", False) is True,
                parts=_topics(fields.get("parts", {})),
                previous_parts=_topics(fields.get("previous_parts", {})),
                former=tuple(map(_text, fields.get("former", ()))),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            msg = f"a record among the aliases is none: {type(error).__name__}"
            raise AliasError(msg) from error


def signature_of(secret: bytes, value: bytes) -> bytes:
    """The cluster's signature of an alias's value."""
    return sign(secret, _PURPOSE, value)


def opened_alias(secret: bytes, key: bytes | None, value: bytes, signature: bytes | None) -> Alias:
    """The alias in a record.

    Raises:
        AliasError: the signature is not the cluster's, the value is no alias, or the key is another store's.
    """
    if signature is None or not verified(secret, _PURPOSE, value, signature):
        raise AliasError("an alias's signature is not this cluster's: it was made with another cluster secret")
    found = Alias.decode(value)
    if key != found.store.encode():
        raise AliasError("an alias lies under another store's key")
    return found


def newest(known: Mapping[str, Alias], found: Alias) -> Mapping[str, Alias]:
    """The aliases by store with one more of them, unless it was decided before the one that is known."""
    before = known.get(found.store)
    return known if before is not None and found.at_ms < before.at_ms else {**known, found.store: found}


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError("no text")
    return found


def _topics(found: Any) -> Mapping[str, str]:
    return {_text(name): _text(topic) for name, topic in found.items()}


def _number(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError("no number")
    return found
