"""The one place where stores are put together: metered(caching(change_logging(bytes)))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.timestamped import TimestampedSerde, ValueAndTimestamp, with_unknown_timestamp
from storekeeper.stores.bytes_store import BytesStore, is_empty
from storekeeper.stores.caching import CacheBudget, CachingStore
from storekeeper.stores.change_logging import ChangeLoggingStore
from storekeeper.stores.changelog_writer import ChangelogWriter
from storekeeper.stores.expiry_index import ExpiryIndexStore
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.layers import StoreLayers
from storekeeper.stores.lru import LruStore
from storekeeper.stores.metered import MeteredStore
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.segmented import SegmentedStore, session_segments, window_segments
from storekeeper.stores.session import SessionStore, check_session_retention
from storekeeper.stores.suppliers import MemorySupplier, StoreSupplier
from storekeeper.stores.ttl import TtlKeyValueStore, check_ttl
from storekeeper.stores.upgrading import UpgradingStore
from storekeeper.stores.versioned import VersionedKeyValueStore, check_history_retention, version_index
from storekeeper.stores.window import WindowStore, check_retention

K = TypeVar("K")
V = TypeVar("V")
Wrap = Callable[[BytesStore], BytesStore]


@dataclass(frozen=True, slots=True)
class StoreBuilder:
    """How a store is built. Immutable: each `with_` gives a changed copy, the last call opens the store.

    Attributes:
        name: the store's name.
        supplier: where its bytes live.
        context: the input record that its owner is processing; stores of one task share it.
        changelog: where changes are logged; None switches logging off for this store.
        cache: the cache's bound; None means no cache.
        send_old_values: whether flush listeners get old values.
        metered: whether operations are timed.
    """

    name: str
    supplier: StoreSupplier = field(default_factory=MemorySupplier)
    context: RecordContext = field(default_factory=RecordContext)
    changelog: ChangelogWriter | None = None
    cache: CacheBudget | None = None
    send_old_values: bool = False
    metered: bool = True

    def with_context(self, context: RecordContext) -> Self:
        """Shares a context with the other stores of a task."""
        return replace(self, context=context)

    def with_logging(self, changelog: ChangelogWriter) -> Self:
        """Logs every change that reaches the store below the cache; what a restore writes is not logged again."""
        return replace(self, changelog=changelog)

    def with_caching(self, budget: CacheBudget | None = None, *, send_old_values: bool = False) -> Self:
        """Caches writes until a flush; stores that share a budget share its bound."""
        return replace(self, cache=budget or CacheBudget(), send_old_values=send_old_values)

    def with_metrics_disabled(self) -> Self:
        """Times no operation: the store then has no latency histograms."""
        return replace(self, metered=False)

    def key_value(self, key_serde: Serde[K], value_serde: Serde[V]) -> KeyValueStore[K, V]:
        """Opens a store of values by key, ordered by the serialized keys."""
        return KeyValueStore(self._layers(), key_serde, value_serde)

    def timestamped_key_value(
        self, key_serde: Serde[K], value_serde: Serde[V]
    ) -> KeyValueStore[K, ValueAndTimestamp[V]]:
        """Opens a key-value store whose values carry the timestamp of the record that made them."""
        return KeyValueStore(self._layers(), key_serde, TimestampedSerde(value_serde))

    def upgraded_key_value(self, key_serde: Serde[K], value_serde: Serde[V]) -> KeyValueStore[K, ValueAndTimestamp[V]]:
        """Opens a timestamped store over the rows of a plain one of the same name.

        Rows move as they are read by key or written; those that were not yet have timestamp -1. Once the plain store
        is empty the next open goes without it. The new rows are in a store called `<name>.timestamped`.
        """
        return KeyValueStore(self._layers(upgrade=True), key_serde, TimestampedSerde(value_serde))

    def versioned_key_value(
        self, key_serde: Serde[K], value_serde: Serde[V], *, history_retention_ms: int
    ) -> VersionedKeyValueStore[K, V]:
        """Opens a store that keeps each key's history for `history_retention_ms` of stream time, 0 or more.

        Raises:
            ConfigurationError: the retention is negative, nothing was opened; or the supplier's rows may be evicted.
        """
        check_history_retention(history_retention_ms)
        layers = self._layers(version_index)
        return VersionedKeyValueStore(layers, key_serde, value_serde, history_retention_ms=history_retention_ms)

    def ttl_key_value(
        self, key_serde: Serde[K], value_serde: Serde[V], *, ttl_ms: int | None
    ) -> TtlKeyValueStore[K, V]:
        """Opens a store whose rows live for `ttl_ms` of stream time unless a put gives another TTL; None: for ever.

        Raises:
            ConfigurationError: the TTL is below 1, nothing was opened; or the supplier's rows may be evicted.
        """
        check_ttl(ttl_ms)
        return TtlKeyValueStore(self._layers(ExpiryIndexStore), key_serde, value_serde, ttl_ms=ttl_ms)

    def window(
        self,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        window_size_ms: int,
        retention_ms: int,
        retain_duplicates: bool = False,
    ) -> WindowStore[K, V]:
        """Opens a store of values by key and window start, kept for `retention_ms` of stream time.

        Args:
            key_serde: of keys.
            value_serde: of values.
            window_size_ms: the size of every window, at least 1.
            retention_ms: how long windows live, counted from their start; at least their size.
            retain_duplicates: whether several values of one key and start stay beside each other.

        Raises:
            ConfigurationError: the sizes can't work, nothing was opened; or the supplier's rows may be evicted.
        """
        check_retention(window_size_ms, retention_ms)
        return WindowStore(
            self._layers(lambda inner: window_segments(inner, retention_ms)),
            key_serde,
            value_serde,
            window_size_ms=window_size_ms,
            retention_ms=retention_ms,
            retain_duplicates=retain_duplicates,
        )

    def session(self, key_serde: Serde[K], value_serde: Serde[V], *, retention_ms: int) -> SessionStore[K, V]:
        """Opens a store of values by key, session start and end, kept for `retention_ms` of stream time.

        Raises:
            ConfigurationError: the retention is below 1, nothing was opened; or the supplier's rows may be evicted.
        """
        check_session_retention(retention_ms)
        layers = self._layers(lambda inner: session_segments(inner, retention_ms))
        return SessionStore(layers, key_serde, value_serde, retention_ms=retention_ms)

    def _layers(self, arrange: Wrap | None = None, *, upgrade: bool = False) -> StoreLayers:
        backend = self._upgraded() if upgrade else self.supplier.open(self.name)
        if arrange is not None and isinstance(backend, LruStore):
            msg = (
                f"store {self.name} orders its rows by time: an LRU store would evict parts of it; use another supplier"
            )
            raise ConfigurationError(msg)
        arranged = backend if arrange is None else arrange(backend)
        logged = arranged
        if self.changelog is not None:
            logged = change_logging = ChangeLoggingStore(arranged, self.changelog, self.context)
            if isinstance(backend, LruStore):
                # An evicted row must leave the changelog too, or a restore would bring it back.
                backend.on_evict(change_logging.log_deletion)
        cached = logged
        if self.cache is not None:
            cached = CachingStore(logged, self.context, self.cache, send_old_values=self.send_old_values)
        top = MeteredStore(cached) if self.metered else cached
        return StoreLayers(
            top=top,
            logged=logged,
            restore_target=arranged,
            backend=backend,
            context=self.context,
            metered=top if isinstance(top, MeteredStore) else None,
            cache=cached if isinstance(cached, CachingStore) else None,
            segments=arranged if isinstance(arranged, SegmentedStore) else None,
            expiry_index=arranged if isinstance(arranged, ExpiryIndexStore) else None,
        )

    def _upgraded(self) -> BytesStore:
        old = self.supplier.open(self.name)
        new = self.supplier.open(f"{self.name}.timestamped")
        if is_empty(old):
            old.close()
            return new
        return UpgradingStore(new, old, with_unknown_timestamp)
