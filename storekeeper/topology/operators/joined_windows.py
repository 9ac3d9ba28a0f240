"""Windows that are joined: which may meet, and how long their rows are kept for each other.

A row is kept until no record can change its window in any of the tables that are joined: for the longest of their
retentions, in the stream time of the slowest. One that is `LONGEST_WAIT_MS` behind keeps nothing back: its changes of
windows that the others have forgotten give no result, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from storekeeper.errors import ConfigurationError
from storekeeper.topology.node import GraphNode
from storekeeper.topology.operators.aggregate import StreamAggregate
from storekeeper.topology.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows


def check_windows(operator: str, left: Windows | None, right: Windows | None) -> None:
    """Refuses tables whose windows are never equal, or only by chance.

    Raises:
        ConfigurationError: they are windows of different kinds or sizes.
    """
    if left is not None and right is not None and _shape(left) != _shape(right):
        msg = f"{operator}: its two sides have different windows, {left} and {right}: use windows of one kind and size"
        raise ConfigurationError(msg)


def keep_for_each_other(join: GraphNode) -> bool:
    """Lets the windowed tables above a join keep their rows as long as any of them can change. Returns whether there
    are any on both sides.
    """
    left, right = (list(_windowed(parent)) for parent in join.parents)
    if left and right:
        together = dict.fromkeys(left + right)
        for table in together:
            table.keep_with([other for other in together if other is not table])
    return bool(left and right)


def _shape(windows: Windows) -> tuple[object, ...]:
    if isinstance(windows, TimeWindows):
        return TimeWindows, windows.size_ms
    if isinstance(windows, SlidingWindows):
        return SlidingWindows, windows.time_difference_ms
    if isinstance(windows, SessionWindows):
        return SessionWindows, windows.gap_ms
    return type(windows), windows.start_ms


def _windowed(node: GraphNode) -> Iterator[StreamAggregate]:
    """The tables of windows that end, from which a node's rows or records come."""
    if isinstance(node, StreamAggregate):
        if node.windows is not None and not isinstance(node.windows, UnlimitedWindows):
            yield node
        return
    for parent in node.parents:
        yield from _windowed(parent)
