"""`size`: what memory and disk a process with state stores will need, and by which formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from storekeeper.cli.output import AnswerOption, AnswerOutput, write_answer
from storekeeper.sizing import MIB, Part, Workload, kafka_streams_memory_bytes
from storekeeper.sizing import size as sized

Partitions = Annotated[int, typer.Option(min=1, help="Partitions of each store in the process, standbys included.")]
Stores = Annotated[int, typer.Option(min=1, help="Number of stores.")]
Rows = Annotated[int, typer.Option(min=0, help="Rows of one store over its partitions in the process.")]
KeyBytes = Annotated[int, typer.Option(min=1, help="Mean size of a key.")]
ValueBytes = Annotated[int, typer.Option(min=0, help="Mean size of a value.")]
BoundMib = Annotated[int, typer.Option(min=0, help="The bound of block cache and write buffers together.")]
RecordCacheMib = Annotated[int, typer.Option(min=0, help="The bound of the record caches.")]


def size(  # noqa: PLR0917 - each is an option of its own
    partitions: Partitions = 4,
    stores: Stores = 1,
    rows: Rows = 1_000_000,
    key_bytes: KeyBytes = 16,
    value_bytes: ValueBytes = 104,
    bound_mib: BoundMib = 256,
    record_cache_mib: RecordCacheMib = 10,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Compute a process's memory and disk.

    Each figure comes with its formula.

    Example: storekeeper size --rows 5000000 --partitions 8
    """
    workload = Workload(partitions, stores, rows, key_bytes, value_bytes, bound_mib * MIB, record_cache_mib * MIB)
    sizing, peer = sized(workload), kafka_streams_memory_bytes(partitions, stores)
    answer = {
        "memory_bytes": sizing.memory_bytes,
        "memory": [asdict(part) for part in sizing.memory],
        "disk_bytes": sizing.disk_bytes,
        "disk": [asdict(part) for part in sizing.disk],
        "wanted_cache_bytes": sizing.wanted_cache_bytes,
        "kafka_streams_memory_bytes": peer,
    }
    brief = {
        "memory, MiB": _mib(sizing.memory_bytes),
        "disk, MiB": _mib(sizing.disk_bytes),
        "a bound that keeps all indexes and filters in memory, MiB": _mib(sizing.wanted_cache_bytes),
        "rule of thumb for a Kafka Streams instance of this shape, MiB": _mib(peer),
        "memory": _parts(sizing.memory),
        "disk": _parts(sizing.disk),
    }
    write_answer(answer, output, brief)


def _parts(parts: Sequence[Part]) -> list[dict[str, object]]:
    return [{"part": part.name, "MiB": _mib(part.bytes), "formula": part.formula} for part in parts]


def _mib(size_bytes: int) -> int:
    return round(size_bytes / MIB)
