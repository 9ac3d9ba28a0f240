"""The contract of a store, as declared in code and as it runs, in a form that can be saved in a file and compared.

A description of what runs is JSON: `{"version": 1, "described_at_ms": …, "stores": [{"store": "rewards", …}, …],
"topologies": [{"app": "pos", …}, …]}`. It holds no rows and no keys, only names, types and counts: it may be kept in a
repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import msgspec
import orjson

from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.names import checked_name

Fields = Mapping[str, str]
"""SQL type by name of a value's fields, and `BY_SCHEMA` among them if values are by schemas of a registry."""
BY_SCHEMA: Fields = {"_value": "by schemas of a registry"}
"""Among the fields of values by schemas: they may change as the registry allows."""


@dataclass(frozen=True, slots=True)
class Step:
    """A migration from the version before `to_version` to `to_version`. `summary` is one sentence for the person who
    approves it, `fields` are those of the new values.
    """

    name: str
    summary: str
    to_version: int
    fields: Fields
    changes_key: bool = False


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
        fields: of the values, from the newest snapshot, or as of the app's last start; None if there is neither.
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
        slots: by the name of its tasks, what they read and store; see `storekeeper.topology.slots`.
    """

    app: str
    generation: int
    migrations: tuple[str, ...]
    stores: Mapping[str, str]
    repartitions: Mapping[str, str]
    slots: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Description:
    """The running stores and apps at `described_at_ms`, epoch milliseconds. Apps that have not started yet have no
    topology here.
    """

    described_at_ms: int
    stores: Mapping[str, RunningStore]
    topologies: Mapping[str, AppTopology] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The JSON that `decode` reads: readable by people, equal for equal descriptions."""
        stores = [self.stores[name] for name in sorted(self.stores)]
        topologies = [self.topologies[app] for app in sorted(self.topologies)]
        content = msgspec.to_builtins(_File(1, self.described_at_ms, stores, topologies))
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            InvalidArgumentError: if it is not a description.
        """
        try:
            content = msgspec.json.decode(data, type=_File)
            for store in content.stores:
                for name in (store.store, store.app, store.topic):
                    checked_name(name)
            for topology in content.topologies:
                checked_name(topology.app)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidNameError) as error:
            msg = "the file does not hold a running state: write one with `storekeeper plan --export FILE`"
            raise InvalidArgumentError(msg) from error
        return cls(
            content.described_at_ms,
            {each.store: each for each in content.stores},
            {each.app: each for each in content.topologies},
        )


class _File(msgspec.Struct):
    version: Literal[1]
    described_at_ms: int
    stores: list[RunningStore]
    topologies: list[AppTopology]
