"""Maps a store's name to its changelog: signed records on a compacted topic; the last one per store counts.

A migration rebuilds a store's rows in another topic. Nodes read these records and restore that topic beside the one
that serves. They switch over once it is ready everywhere. These records are the only switch.

| step       | `topic` | `previous_topic` | `prepare` | serves                                              |
|------------|---------|------------------|-----------|-----------------------------------------------------|
| prepare    | new     | old              | true      | old; new is restored beside it                      |
| cut over   | new     | old              | false     | new, once every partition is ready; old stays warm  |
| roll back  | old     | new              | false     | old; new stays warm                                 |
| retire     | new     | none             | false     | new; old is dropped                                 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.names import checked_name
from storekeeper.node.security.cluster_secret import sign, verified

_PURPOSE = "alias"
_LONGEST_BYTES = 1 << 16
_HIGHEST_GENERATION = 1_000_000
_LONGEST_NAMES = 200
"""Store and topic together name a directory, see `storekeeper.names.variant_name`."""


class AliasError(InvalidArgumentError):
    """A record is not an alias of this cluster. Nodes ignore and log it."""


@dataclass(frozen=True, slots=True)
class Alias:
    """The changelog that stands behind a store's name.

    Attributes:
        store: the store's name, as callers ask for it.
        generation: the generation of the app that writes `topic`; 1 or more.
        topic: the changelog that serves, or with `prepare` the one to warm.
        previous_topic: the one that served before and stays warm, or with `prepare` the one that serves; None if
            there is none to keep.
        at_ms: when this was decided, epoch milliseconds; an alias with an earlier time than the known one is ignored.
        prepare: warm `topic`, and keep answering from `previous_topic`.
        topic_id: the broker's id of `topic` when the alias was published; None if there was no such topic. Nodes with
            rows of another topic of that name drop them.
    """

    store: str
    generation: int
    topic: str
    previous_topic: str | None
    at_ms: int
    prepare: bool = False
    topic_id: str | None = None

    def __post_init__(self) -> None:
        self._check_names()
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
        topics = [topic for topic in (self.topic, self.previous_topic) if topic is not None]
        try:
            for name in (self.store, *topics):
                checked_name(name)
        except InvalidNameError as error:
            raise AliasError(str(error)) from error
        if len(self.store) + max(map(len, topics)) > _LONGEST_NAMES:
            msg = f"the names of store {self.store[:40]} and its topic have over {_LONGEST_NAMES} characters together"
            raise AliasError(msg)

    @property
    def serving_topic(self) -> str:
        """The topic that answers reads."""
        return self.previous_topic if self.prepare and self.previous_topic is not None else self.topic

    @property
    def warm_topic(self) -> str | None:
        """The topic to keep warm beside it; None if there is none."""
        return self.topic if self.prepare else self.previous_topic

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
                "topic_id": self.topic_id,
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            AliasError: if it is not an alias.
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
                topic_id=None if fields.get("topic_id") is None else _text(fields["topic_id"]),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            msg = f"a record among the aliases can't be read: {type(error).__name__}"
            raise AliasError(msg) from error


def signature_of(secret: bytes, value: bytes) -> bytes:
    """The cluster's signature of an alias's value."""
    return sign(secret, _PURPOSE, value)


def opened_alias(secret: bytes, key: bytes | None, value: bytes, signature: bytes | None) -> Alias:
    """The alias in a record.

    Raises:
        AliasError: the signature is not the cluster's, the value is not an alias, or the key is another store's.
    """
    if signature is None or not verified(secret, _PURPOSE, value, signature):
        raise AliasError("an alias's signature is not this cluster's: it was made with another cluster secret")
    found = Alias.decode(value)
    if key != found.store.encode():
        raise AliasError("an alias lies under another store's key")
    return found


def newest(known: Mapping[str, Alias], found: Alias) -> Mapping[str, Alias]:
    """The aliases by store with `found` added, unless it is older than the known one."""
    before = known.get(found.store)
    return known if before is not None and found.at_ms < before.at_ms else {**known, found.store: found}


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError("no text")
    return found


def _number(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError("no number")
    return found
