"""A session on a cluster, in a process of its own: `python -m tests.engine.runtime.shipping MODULE...`.

Prints, for each module, what an executor finds when it imports it: the value of `ORIGIN`, or the name of the error.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa

from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.session import start_session, stop_spark


def main(modules: list[str]) -> None:
    """Asks one task of an executor."""

    def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = batch.column(0).to_pylist()
            yield pa.RecordBatch.from_pydict({"module": names, "origin": [origin(name) for name in names]})

    def origin(name: str) -> str:
        try:
            return str(importlib.import_module(name).ORIGIN)
        except ImportError as error:
            return type(error).__name__

    session = start_session("shipping", AppSettings())
    try:
        asked = session.createDataFrame([(name,) for name in modules], "module string").coalesce(1)
        rows = asked.mapInArrow(found, "module string, origin string").collect()
        print(json.dumps({row.module: row.origin for row in rows}))
    finally:
        stop_spark(session.sparkContext)


if __name__ == "__main__":
    main(sys.argv[1:])
