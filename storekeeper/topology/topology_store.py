"""A store of a topology: how its rows are arranged and encoded, and which options it may have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from storekeeper.errors import ConfigurationError
from storekeeper.schemas.bound import BoundSerde, SchemaSerde
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import encoded_names, key_serde
from storekeeper.topology.serde_checks import check_keys, check_type
from storekeeper.topology.store import Store, StoreKind

_KINDS = {
    "retention": (StoreKind.WINDOW, StoreKind.SESSION),
    "history": (StoreKind.VERSIONED,),
    "ttl": (StoreKind.TTL,),
}


@dataclass(frozen=True, slots=True)
class TopologyStore:
    """A store of a topology with everything that is needed to open it.

    Attributes:
        name: of the store.
        kind: how rows are arranged.
        key_serde: of its keys.
        value_serde: of its values, without the timestamp.
        options: its options in the topology.
        retention_ms: of windows, sessions and versions; the TTL of a store of kind TTL.
        window_size_ms: of a window store.
        retain_duplicates: whether a window store keeps several values of one key and time.
        timestamped: whether values carry the timestamp of their record.
        internal: whether its rows mean something to its operator only.

    Raises:
        ConfigurationError: it is to be ranked, and its rows are not by key, or have no such field; or it is to be
            everywhere or bounded, and its rows are not by key.
    """

    name: str
    kind: StoreKind
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    options: Store[Any] = field(default_factory=Store)
    retention_ms: int = 0
    window_size_ms: int = 0
    retain_duplicates: bool = False
    timestamped: bool = False
    internal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_serde", key_serde(self.key_serde))
        if self.options.everywhere and self.kind not in {StoreKind.KEY_VALUE, StoreKind.TTL}:
            msg = f"store {self.name}: rows of kind {self.kind} can't be everywhere; leave `everywhere` out"
            raise ConfigurationError(msg)
        if self.options.max_rows is not None and (self.internal or self.kind is not StoreKind.KEY_VALUE):
            msg = f"store {self.name}: its rows belong together, so it can't be bounded: leave max_rows= out"
            raise ConfigurationError(msg)
        field_name = self.options.ranked_by
        if field_name is None:
            return
        if self.kind is not StoreKind.KEY_VALUE:
            msg = f"store {self.name}: rows of kind {self.kind} can't be ranked; rank a table that is not windowed"
            raise ConfigurationError(msg)
        serde = self.value_serde.inner if isinstance(self.value_serde, BoundSerde) else self.value_serde
        if isinstance(serde, SchemaSerde):
            _check_number(self.name, field_name, serde)
        elif field_name not in encoded_names(serde):
            msg = f"store {self.name}: ranked_by={field_name!r} is not a field of its values as they are encoded"
            raise ConfigurationError(msg)


def check_options(spec: TopologyStore) -> None:
    """Refuses options that would be ignored in silence.

    Raises:
        ConfigurationError: they are those of another kind of store.
    """
    kind, options = spec.kind, spec.options
    if options.kind not in {StoreKind.KEY_VALUE, kind}:
        msg = f"store {spec.name}: this operator keeps rows of kind {kind.value}, not {options.kind.value}"
        raise ConfigurationError(msg)
    for option, kinds in _KINDS.items():
        if getattr(options, option) is not None and kind not in kinds:
            msg = f"store {spec.name}: {option}= has no meaning for rows of kind {kind.value}: leave it out"
            raise ConfigurationError(msg)


def _check_number(store: str, field_name: str, serde: SchemaSerde[Any]) -> None:
    """Refuses a ranking in which no row would have a score."""
    if field_name not in serde.numbers():
        raise ConfigurationError(
            f"store {store}: ranked_by={field_name!r} is not a field that is a number in JSON by its schema: choose "
            f"{' or '.join(sorted(serde.numbers())) or 'another schema'}. Times, and 64-bit integers of Protobuf, are "
            "text there"
        )


def check_store(name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]]) -> None:
    """Refuses a store whose keys or values are not those of its operator.

    Keys that are written otherwise would be in partitions where no node looks for them.

    Raises:
        ConfigurationError: they are of other types.
    """
    check_keys(f"store {name}", serdes[0], options.key_serde)
    check_type(f"store {name}: the values are", serdes[1], options.value_serde)


def rows_spec(name: str, options: Store[Any], serdes: tuple[Serde[Any], Serde[Any]]) -> TopologyStore:
    """The store of a table's rows, with the serdes of its options or else `serdes`.

    Raises:
        ConfigurationError: those of its options are of other types.
    """
    check_store(name, options, serdes)
    keys, values = options.key_serde or serdes[0], options.value_serde or serdes[1]
    return TopologyStore(name, StoreKind.KEY_VALUE, keys, values, options, timestamped=True)
