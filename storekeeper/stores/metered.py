"""The outermost wrapper: how long operations take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter_ns

from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.stores.bytes_store import NO_METADATA, BytesIterator, BytesStore, Entry
from storekeeper.stores.wrapped import WrappedStore

OPERATIONS = ("get", "get_many", "put", "put_all", "range", "flush")


class MeteredStore(WrappedStore):
    """Times each call, the whole batch as one for batched calls, and the opening of a scan.

    Attributes:
        latencies: one recorder per operation, by the names in `OPERATIONS`.
    """

    def __init__(self, inner: BytesStore) -> None:
        super().__init__(inner)
        self.latencies = {operation: LatencyRecorder() for operation in OPERATIONS}
        self._inner_get = inner.get
        self._get_latency = self.latencies["get"]
        self._get_counts = self._get_latency.counts

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        # The recorder is written out here: a call would cost a tenth of the whole look-up.
        begin = perf_counter_ns()
        value = self._inner_get(key)
        elapsed = perf_counter_ns() - begin
        self._get_counts[elapsed.bit_length()] += 1
        self._get_latency.total_ns += elapsed
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        begin = perf_counter_ns()
        values = self._inner.get_many(keys)
        self.latencies["get_many"].record(perf_counter_ns() - begin)
        return values

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata in one step."""
        single = type(entries) is tuple and len(entries) == 1
        begin = perf_counter_ns()
        self._inner.write(entries, metadata)
        self.latencies["put" if single else "put_all"].record(perf_counter_ns() - begin)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`."""
        begin = perf_counter_ns()
        rows = self._inner.scan(start, stop, reverse=reverse)
        self.latencies["range"].record(perf_counter_ns() - begin)
        return rows

    def flush(self) -> None:
        """Makes all that was written safe."""
        begin = perf_counter_ns()
        self._inner.flush()
        self.latencies["flush"].record(perf_counter_ns() - begin)
