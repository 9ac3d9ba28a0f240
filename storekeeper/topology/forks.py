"""Forks: where a record or a change goes several ways that meet again in a join.

      table ──────────────┐
        └── map, filter ──┴── join

A join below a fork sees one change twice, once on each side. In between its sides don't fit: one has the change and
the other has not yet. So such a join collects what comes, and settles it when the fork has passed the change on to
everybody. A join is settled after the joins above it. Where a topology has no forks, nothing is collected. Nor is
anything where a stream is joined to a table which each record changes before it reaches the join.

A cache between fork and join lets changes go when the batch ends. The join is settled then, too: once for all changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from storekeeper.topology.node import GraphNode, TableNode, ancestors

F = TypeVar("F", bound=Callable[..., None])


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class Meeting:
    """A join below a fork.

    Attributes:
        held: whether it is settled when the batch ends.
        forks: how many forks above it are passing something on at the moment.
        settle: makes results of what was collected.
    """

    held: bool = False
    forks: int = 0
    settle: Callable[[], None] = _nothing

    @property
    def collects(self) -> bool:
        """Whether what comes now is to be collected."""
        return self.held or self.forks > 0


def meetings_of(nodes: Sequence[GraphNode]) -> tuple[dict[GraphNode, Meeting], dict[GraphNode, list[Meeting]]]:
    """The joins below forks, and the forks with the joins to settle, each in the order of declaration.

    A node is declared after all nodes above it, so that is an order from top to bottom.
    """
    meetings: dict[GraphNode, Meeting] = {}
    forks: dict[GraphNode, list[Meeting]] = {}
    for join in nodes:
        joined = _forks_above(join) if join.meets else []
        if not joined or _follows_its_table(join, joined, meetings):
            continue
        held = isinstance(join, TableNode) and _is_held(join, joined, meetings)
        meeting = meetings[join] = Meeting(held)
        for fork in [] if held else joined:
            forks.setdefault(fork, []).append(meeting)
    return meetings, forks


def around(meetings: Sequence[Meeting], forward: F) -> F:
    """What a fork passes on with, so that the joins below are settled afterwards."""

    def guarded(key: object, value: object, timestamp_ms: int) -> None:
        for meeting in meetings:
            meeting.forks += 1
        try:
            forward(key, value, timestamp_ms)
            for meeting in meetings:
                if meeting.forks == 1:
                    meeting.settle()
        finally:
            for meeting in meetings:
                meeting.forks -= 1

    return guarded  # type: ignore[return-value]


def _forks_above(join: GraphNode) -> list[GraphNode]:
    """The nodes from which both inputs can be reached, by more than one way."""
    left, right = _ways_to(join, 0), _ways_to(join, 1)
    return [node for node in left if node in right and len(left[node] | right[node]) > 1]


def _ways_to(join: GraphNode, number: int) -> dict[GraphNode, set[tuple[GraphNode, int]]]:
    """The nodes above one input of a join, each with its inputs of children that lead there."""
    first = join.parents[number]
    ways = {first: {(join, number)}}
    for node in ancestors(first):
        for at, parent in enumerate(node.parents):
            ways.setdefault(parent, set()).add((node, at))
    return ways


def _follows_its_table(join: GraphNode, forks: Iterable[GraphNode], meetings: Container[GraphNode]) -> bool:
    """Whether a stream's record reaches its join only when it has changed the table, below each fork.

    A stream gives a record to one child after the other, each with all that is below it.
    """
    if isinstance(join, TableNode) or any(node in meetings for node in ancestors(join.parents[1])):
        return False
    stream, table = _ways_to(join, 0), _ways_to(join, 1)
    return all(
        not isinstance(fork, TableNode)
        and max(map(fork.children.index, table[fork])) < min(map(fork.children.index, stream[fork]))
        for fork in forks
    )


def _is_held(join: GraphNode, forks: Iterable[GraphNode], meetings: dict[GraphNode, Meeting]) -> bool:
    """Whether a table between a fork and the join lets changes go only when the batch ends."""
    waits = [node for node in _above(join) if is_cached(node) or (node in meetings and meetings[node].held)]
    return any(not _above(node).isdisjoint(forks) for node in waits)


def _above(node: GraphNode) -> set[GraphNode]:
    return set(ancestors(node)) - {node}


def is_cached(node: GraphNode) -> bool:
    """Whether a node is a table that holds changes back until the batch ends."""
    return isinstance(node, TableNode) and any(spec.options.caching for spec in node.stores)
