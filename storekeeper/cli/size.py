"""`size`: what memory and disk a process with state stores will need, and by which formula."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from storekeeper.cli.output import AnswerOption, AnswerOutput, write_json
from storekeeper.sizing import MIB, Part, Sizing, Workload, kafka_streams_memory_bytes
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
    if output is AnswerOutput.JSON:
        write_json(_document(sizing, peer))
        return
    console = Console()
    console.print(_table("memory", sizing.memory, sizing.memory_bytes))
    console.print(_table("disk", sizing.disk, sizing.disk_bytes))
    console.print(
        f"A bound of {_mib(sizing.wanted_cache_bytes)} MiB would keep all indexes and filters in memory; below it a "
        "read may touch the disk twice.\n"
        f"The rule of thumb for a Kafka Streams instance of the same shape gives {_mib(peer)} MiB of memory.",
        highlight=False,
    )


def _document(sizing: Sizing, peer_bytes: int) -> dict[str, object]:
    return {
        "memory_bytes": sizing.memory_bytes,
        "memory": [asdict(part) for part in sizing.memory],
        "disk_bytes": sizing.disk_bytes,
        "disk": [asdict(part) for part in sizing.disk],
        "wanted_cache_bytes": sizing.wanted_cache_bytes,
        "kafka_streams_memory_bytes": peer_bytes,
    }


def _table(title: str, parts: tuple[Part, ...], total: int) -> Table:
    table = Table(Column(title), Column("MiB", justify="right"), Column("formula"), box=SIMPLE, show_footer=False)
    for part in parts:
        table.add_row(part.name, _mib(part.bytes), part.formula)
    table.add_section()
    table.add_row("sum", _mib(total), "")
    return table


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.0f}"
