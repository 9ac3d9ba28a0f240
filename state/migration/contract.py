"""The contract of a store, as declared in code and as it runs, in a form that can be saved in a file and compared.

A description of what runs is JSON: `{"version": 1, "described_at_ms": …, "stores": [{"store": "rewards", …}, …],
"topologies": [{"app": "pos", …}, …]}`. It holds no rows and no keys, only names, types and counts: it may be kept in a
repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import orjson

from state.errors import InvalidArgumentError, InvalidNameError
from state.names import checked_name

_VERSION = 1
Fields = Mapping[str, str]
"""SQL type by name of a value's fields, and `BY_SCHEMA` among them if values are by schemas of a registry."""
BY_SCHEMA: Fields = {"_value": "by schemas of a registry"}
"""Among the fields of values by schemas: they may change as the registry allows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A migration from the version before `to_version` to `to_version`.

    Attributes:
        name: what it is called.
        summary: one sentence for the person who approves it.
        to_version: the version that it makes.
        fields: of the new values.
        changes_key: whether it changes the keys.
        offered: whether a plan proposes it by itself.
    """

    name: str
    summary: str
    to_version: int
    fields: Fields
    changes_key: bool = False
    offered: bool = True


@dataclass(frozen=True, slots=True)
class DeclaredStore:
    """A store as the code declares it.

    Attributes:
        store, app, topic, kind, score_field: as in its spec; `topic` is the first generation's.
        fields: of values of version 1.
        steps: the available migrations, in the order of their versions.
        partitions: how many the changelog should have; None leaves them as they are.
        unchangeable: why the app can't have generations; None if it can.
    """

    store: str
    app: str
    topic: str
    kind: str
    score_field: str | None
    fields: Fields
    steps: tuple[Step, ...] = ()
    partitions: int | None = None
    unchangeable: str | None = None

    def fields_at(self, version: int) -> Fields | None:
        """The fields of values of a version; None if no migration makes that version."""
        if version == 1:
            return self.fields
        return next((step.fields for step in self.steps if step.to_version == version), None)


@dataclass(frozen=True, slots=True)
class RunningStore:
    """A store as it runs.

    Attributes:
        store, app, kind, score_field: as in the spec that it was started with.
        topic: its first generation's changelog.
        generation: the live one.
        migrations: names of those that made it, in order; the values' version is their number plus one.
        fields: of the values, from the newest snapshot; None if there is none.
        partitions: of the live changelog; None if the broker gave no answer.
        keys, size_bytes: of the newest snapshot; None if there is none.
    """

    store: str
    app: str
    topic: str
    kind: str
    score_field: str | None = None
    generation: int = 1
    migrations: tuple[str, ...] = ()
    fields: Fields | None = None
    partitions: int | None = None
    keys: int | None = None
    size_bytes: int | None = None

    @property
    def version(self) -> int:
        """The version of its values."""
        return 1 + len(self.migrations)


@dataclass(frozen=True, slots=True)
class AppTopology:
    """The internal stores and topics of an app, in one of its generations.

    Attributes:
        app, generation: whose they are.
        migrations: names of those that made the generation.
        stores: by name the kind of each store that no node serves.
        repartitions: by name of each repartition topic `topic`, or `shuffle` where Spark's shuffle takes its place.
    """

    app: str
    generation: int
    migrations: tuple[str, ...]
    stores: Mapping[str, str]
    repartitions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Description:
    """The running stores and apps.

    Attributes:
        described_at_ms: when they were described, epoch milliseconds.
        stores: by name.
        topologies: by app; those that have not started yet are not there.
    """

    described_at_ms: int
    stores: Mapping[str, RunningStore]
    topologies: Mapping[str, AppTopology] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The JSON that `decode` reads: readable by people, equal for equal descriptions."""
        stores = [asdict(self.stores[name]) for name in sorted(self.stores)]
        topologies = [asdict(self.topologies[app]) for app in sorted(self.topologies)]
        content = {
            "version": _VERSION,
            "described_at_ms": self.described_at_ms,
            "stores": stores,
            "topologies": topologies,
        }
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            InvalidArgumentError: if it is no description.
        """
        try:
            content = orjson.loads(data)
            if content["version"] != _VERSION:
                raise ValueError("another version")
            stores = [_running(entry) for entry in content["stores"]]
            topologies = [_topology(entry) for entry in content["topologies"]]
            return cls(
                int(content["described_at_ms"]),
                {found.store: found for found in stores},
                {found.app: found for found in topologies},
            )
        except (ValueError, TypeError, KeyError, AttributeError, InvalidNameError) as error:
            msg = "the file is no description of what runs: write one with `storekeeper plan --export FILE`"
            raise InvalidArgumentError(msg) from error


def _topology(entry: dict[str, Any]) -> AppTopology:
    checked_name(entry["app"])
    return AppTopology(**{**entry, "migrations": tuple(map(str, entry["migrations"]))})


def _running(entry: dict[str, Any]) -> RunningStore:
    for name in ("store", "app", "topic"):
        checked_name(entry[name])
    fields = entry["fields"]
    return RunningStore(
        **{
            **entry,
            "migrations": tuple(map(str, entry["migrations"])),
            "fields": None if fields is None else {str(name): str(kind) for name, kind in fields.items()},
        }
    )
