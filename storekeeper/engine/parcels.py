"""What the tasks of a batch pass on, as bytes: parcels of records for one task of a later stage, or of an outcome.

| bytes | of records                              | of an outcome |
|-------|-----------------------------------------|---------------|
| 4     | the stage that they go to               | 0             |
| 4     | their task's place in that stage        | 0             |
| rest  | an Arrow batch of `engine.rows.SCHEMA`  | it, packed    |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from storekeeper.engine.rows import SCHEMA

_HEAD = struct.Struct("!ii")
"""Eight bytes: Arrow reads numbers from where memory is aligned."""
_OUTCOME = 0
"""The stage of an outcome: records go to none that is before the second."""


def parcels_of(stage: int, rows: pa.RecordBatch) -> Iterator[bytes]:
    """Parcels with the rows of each task, in their order."""
    tasks = rows.column("task").to_numpy()
    order = np.argsort(tasks, kind="stable")
    sorted_tasks, sorted_rows = tasks[order], rows.take(pa.array(order))
    edges = [0, *(np.flatnonzero(np.diff(sorted_tasks)) + 1).tolist(), len(tasks)]
    for first, end in pairwise(edges):
        yield _HEAD.pack(stage, sorted_tasks[first]) + sorted_rows.slice(first, end - first).serialize().to_pybytes()


def outcome_parcel(outcome: bytes) -> bytes:
    """The parcel of an outcome."""
    return _HEAD.pack(_OUTCOME, 0) + outcome


def stage_of(parcel: bytes) -> int:
    """The stage that a parcel goes to."""
    stage, _ = _HEAD.unpack_from(parcel)
    return int(stage)


def place_of(parcel: bytes) -> int:
    """The place of its task in that stage."""
    _, place = _HEAD.unpack_from(parcel)
    return int(place)


def rows_in(parcel: bytes) -> pa.RecordBatch:
    """The rows of a parcel of records."""
    return pa.ipc.read_record_batch(pa.py_buffer(parcel).slice(_HEAD.size), SCHEMA)


def outcome_in(parcel: bytes) -> bytes:
    """The outcome in its parcel."""
    return parcel[_HEAD.size :]
