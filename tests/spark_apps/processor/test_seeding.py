from __future__ import annotations

import pyarrow as pa

from spark_apps.processor.seeding import placed_rows
from spark_apps.processor.task import TaskPlan
from state.changelog.partitioner import partition_for
from state.keys.sessions import session_row_key
from state.keys.windows import window_row_key
from state.query.definitions import StoreKind

KINDS = {"sales": StoreKind.WINDOW, "visits": StoreKind.SESSION, "prices": StoreKind.KEY_VALUE}
PLAN = TaskPlan(
    app="shop",
    sources=("pos",),
    changelogs={store: f"{store}-g2" for store in KINDS},
    partitions={f"{store}-g2": count for count, store in enumerate(KINDS, start=5)},
)


def test_a_row_of_a_seed_lies_where_whoever_asks_for_its_key_looks() -> None:
    keys = [b"%d" % number for number in range(20)]
    rows = [
        *(("sales", window_row_key(key, 60_000), b"{}") for key in keys),
        *(("visits", session_row_key(key, 7, 9), b"{}") for key in keys),
        *(("prices", key, b"{}") for key in keys),
    ]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    (placed,) = placed_rows([pa.record_batch(columns, ["store", "key", "value"])], kinds=KINDS, plan=PLAN)
    assert placed.to_pydict() == {
        "topic": [f"{store}-g2" for store, _, _ in rows],
        "key": [key for _, key, _ in rows],
        "value": [b"{}"] * len(rows),
        "partition": [
            *(partition_for(key, 5) for key in keys),
            *(partition_for(key, 6) for key in keys),
            *(None for _ in keys),
        ],
    }


def test_no_rows_make_no_batch() -> None:
    empty = pa.record_batch([pa.array([], pa.string()), *(pa.array([], pa.binary()),) * 2], ["store", "key", "value"])
    assert not list(placed_rows([empty], kinds=KINDS, plan=PLAN))
