"""Timers on stream time: which keys are to be looked at once time has come so far.

Rows in the task's state, beside those of the processor:

    m                               msgpack of `Progress`: stream time, chunks of timers by due time, late records
    t · int64 due time · int32 n    msgpack list of keys: the n-th batch's that are due then

Due times are rounded up to whole steps, so that there are few; each batch adds a row of its own to a due time instead
of rewriting what earlier ones wrote.
"""

from __future__ import annotations

import struct

import msgspec

from spark_apps.processor.state import BatchState, TaskState

PROGRESS_KEY = b"m"
_TIMERS = struct.Struct(">cqi")


class Progress(msgspec.Struct, array_like=True):
    """How far a task has come. `stream_time_ms` is the newest event time that it has seen; -1 before the first."""

    stream_time_ms: int = -1
    chunks: dict[int, int] = msgspec.field(default_factory=dict)
    late_records: int = 0


_decode_progress = msgspec.msgpack.Decoder(Progress).decode
_decode_keys = msgspec.msgpack.Decoder(list[bytes]).decode
_encode = msgspec.msgpack.Encoder().encode


def stream_time_ms(state: TaskState) -> int:
    """The newest event time that a task has seen, as its last batch left it; -1 if there is none."""
    stored = state.get(PROGRESS_KEY)
    return -1 if stored is None else _decode_progress(stored).stream_time_ms


class Timers:
    """A task's timers and progress during one batch."""

    def __init__(self, state: BatchState, *, step_ms: int) -> None:
        self._state = state
        self._step_ms = step_ms
        stored = state.get(PROGRESS_KEY)
        self.progress = Progress() if stored is None else _decode_progress(stored)
        self._added: dict[int, list[bytes]] = {}
        self._next_ms = min(self.progress.chunks, default=None)

    def schedule(self, at_ms: int, key: bytes) -> None:
        """Has `key` looked at once stream time has reached `at_ms`, rounded up to a whole step."""
        due_ms = -(-at_ms // self._step_ms) * self._step_ms
        self._added.setdefault(due_ms, []).append(key)
        if self._next_ms is None or due_ms < self._next_ms:
            self._next_ms = due_ms

    def take_due(self) -> list[bytes]:
        """Takes out the keys that are due by now, by due time and key; a key comes once a due time."""
        due: list[bytes] = []
        while self._next_ms is not None and self._next_ms <= self.progress.stream_time_ms:
            due += sorted(self._taken(self._next_ms))
            self._next_ms = min((*self.progress.chunks, *self._added), default=None)
        return due

    def flush(self) -> None:
        """Writes progress and new timers into the batch's state."""
        for due_ms, keys in sorted(self._added.items()):
            number = self.progress.chunks.get(due_ms, 0)
            self._state.put(_TIMERS.pack(b"t", due_ms, number), _encode(keys))
            self.progress.chunks[due_ms] = number + 1
        self._state.put(PROGRESS_KEY, _encode(self.progress))

    def _taken(self, due_ms: int) -> set[bytes]:
        keys = set(self._added.pop(due_ms, ()))
        for number in range(self.progress.chunks.pop(due_ms, 0)):
            row = _TIMERS.pack(b"t", due_ms, number)
            keys.update(_decode_keys(self._state.get(row) or b"\x90"))
            self._state.put(row, None)
        return keys
