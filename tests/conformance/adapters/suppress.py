"""Cases of store kind `suppress`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from storekeeper.serdes.json import JsonSerde
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.operators.suppress import (
    BufferConfig,
    BufferFullStrategy,
    Suppressed,
    until_limit,
    until_window_closes,
)
from storekeeper.topology.windows import TimeWindows, WindowedSerde
from tests.conformance.adapter import Adapter
from tests.conformance.backend import Backend
from tests.conformance.window_definitions import window_definition
from tests.topology.operators.built import source_table, suppressed_table
from tests.topology.operators.observed import Observed


def _suppressed(config: dict[str, Any]) -> Suppressed[Any]:
    wanted = config["suppress"]
    details = wanted if isinstance(wanted, dict) else {}
    early = details.get("when_full", "emit_early") == "emit_early"
    strategy = BufferFullStrategy.EMIT_EARLY if early else BufferFullStrategy.SHUT_DOWN
    buffer = BufferConfig(details.get("max_records"), details.get("max_bytes"), strategy)
    if wanted == "until_close" or details.get("until") == "close":
        grace_ms = config.get("grace", 0)
        windows = (
            window_definition(config["window"]) if "window" in config else TimeWindows.tumbling(1, grace_ms=grace_ms)
        )
        return until_window_closes(windows, buffer)
    limit_ms = details.get("time_limit")
    return until_limit(timedelta.max if limit_ms is None else timedelta(milliseconds=limit_ms), buffer)


def _key_bytes(key: Any) -> bytes:
    return (WindowedSerde(JsonSerde()) if isinstance(key, Windowed) else JsonSerde()).serialize(key)


class SuppressAdapter(Adapter):
    """Changes, plain or of windows, held back. The buffer is in memory whatever the backend."""

    kinds: ClassVar[tuple[str, ...]] = ("suppress",)
    backends: ClassVar[tuple[str, ...]] = ("memory",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.source = source_table()
        table, _ = suppressed_table(
            self.source, _suppressed(config), key_bytes=_key_bytes, value_bytes=JsonSerde().serialize
        )
        self.observed = Observed(table)

    def do_change(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.source.upsert(key, value, timestamp_ms)

    def do_wchange(self, key: Any, start_ms: int, end_ms: int, value: Any, timestamp_ms: int) -> None:
        self.source.upsert(Windowed(key, start_ms, end_ms), value, timestamp_ms)

    def do_emitted(self) -> list[Any]:
        return [[*_shown(key), new, timestamp_ms] for key, new, timestamp_ms in self.observed.rows()]


def _shown(key: Any) -> list[Any]:
    return list(key) if isinstance(key, Windowed) else [key]
