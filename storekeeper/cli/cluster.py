"""`stores`, `lag`, `cluster` and `watch`: the stores, replicas and nodes, their state and their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from storekeeper.cli.asking import asks
from storekeeper.cli.output import (
    AnswerOption,
    AnswerOutput,
    ListOption,
    ListOutput,
    iso,
    say,
    table,
    write_json,
    write_rows,
)
from storekeeper.clock import SystemClock
from storekeeper.program import ExitCode

if TYPE_CHECKING:
    from storekeeper.client.client import StateClient
    from storekeeper.client.readings import NodeLag

_STORES = ("store", "kind", "backend", "partitions")
_LAG = ("node", "store", "partition", "role", "state", "offset_lag", "notes")
_MEMBERS = ("name", "address", "rack", "state", "active", "standby")


@asks
def stores(client: StateClient, output: ListOption = ListOutput.TABLE) -> None:
    """List the stores with their partitions.

    Example: storekeeper stores
    """
    write_rows(client.stores(), output, _STORES)


@asks
def lag(client: StateClient, output: ListOption = ListOutput.TABLE) -> None:
    """Show how far each replica is behind its changelog.

    Exit code 4: a node does not answer, or a replica does not serve.

    Example: storekeeper lag --node http://127.0.0.1:18101
    """
    nodes = client.lag()
    held = replicas(nodes)
    write_rows(map(_with_notes, held) if output is ListOutput.TABLE else held, output, _LAG)
    silent = [node for node in nodes if node.error is not None]
    for node in silent:
        say(f"node {node.address} does not answer: {node.error}")
    if silent or not all(replica["serving"] for replica in held):
        raise typer.Exit(ExitCode.FINDING)


def _with_notes(replica: Mapping[str, Any]) -> dict[str, Any]:
    """A replica with all that is wrong with it in one column."""
    notes = [
        f"{replica[name]} {name.replace('_', ' ')}" for name in ("skipped_records", "unranked_rows") if replica[name]
    ]
    return {**replica, "notes": ", ".join([*notes, *filter(None, [replica["error"]])])}


@asks
def cluster(client: StateClient, output: ListOption = ListOutput.TABLE) -> None:
    """Show the nodes of the cluster and what each holds. A node that has been silent for long holds nothing.

    Example: storekeeper cluster
    """
    found = client.cluster()
    members = [*found["members"], *found["missing"]]
    write_rows(members if output is ListOutput.JSON else map(member_row, members), output, _MEMBERS)


def member_row(member: Mapping[str, Any]) -> dict[str, Any]:
    """A member of the cluster as a row of the table."""
    roles = [replica["role"] for replica in member["replicas"]]
    return {
        "name": member["name"],
        "address": member["address"],
        "rack": member["rack"] or "-",
        "state": _state_of(member),
        "active": roles.count("active"),
        "standby": roles.count("standby"),
    }


def _state_of(member: Mapping[str, Any]) -> str:
    if not member["heard"]:
        return f"not heard for {member['silent_s']:.0f} s" if member["suspect"] else "not heard yet"
    if member["suspect"]:
        return f"silent for {member['silent_s']:.0f} s"
    return "settling" if member["settling"] else "alive"


def replicas(nodes: Iterable[NodeLag]) -> list[dict[str, Any]]:
    """All replicas of nodes that answer."""
    return [replica for node in nodes for replica in node.replicas]


_COLUMNS = ("node", "store", "serving", "replicas", "offset_lag")
_BAR_WIDTH = 30
_SMOOTHING = 0.3

ReplicaKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """One replica that has not caught up.

    Attributes:
        done: from 0 to 1, relative to the largest number of missing records seen.
        left: records that are missing.
        eta_s: seconds until it has caught up; None if it isn't getting closer.
    """

    done: float
    left: int
    eta_s: float | None


@dataclass(slots=True)
class _Seen:
    at_s: float
    left: int
    most: int
    per_s: float | None = None


class RestorePace:
    """Takes one look after the other."""

    def __init__(self) -> None:
        self._seen: dict[ReplicaKey, _Seen] = {}

    def observe(self, replicas: Iterable[Mapping[str, Any]], at_s: float) -> dict[ReplicaKey, Progress]:
        """The progress of each replica that does not serve yet, by (node, store, partition)."""
        progress: dict[ReplicaKey, Progress] = {}
        for replica in replicas:
            key = (str(replica["node"]), str(replica["store"]), int(replica["partition"]))
            left = replica.get("offset_lag")
            if replica["serving"] or left is None:
                self._seen.pop(key, None)
                continue
            progress[key] = self._progress(key, int(left), at_s)
        return progress

    def _progress(self, key: ReplicaKey, left: int, at_s: float) -> Progress:
        seen = self._seen.setdefault(key, _Seen(at_s, left, left))
        if at_s > seen.at_s:
            per_s = (seen.left - left) / (at_s - seen.at_s)
            seen.per_s = per_s if seen.per_s is None else seen.per_s + _SMOOTHING * (per_s - seen.per_s)
            seen.at_s, seen.left, seen.most = at_s, left, max(seen.most, left)
        eta_s = left / seen.per_s if seen.per_s is not None and seen.per_s > 0 else None
        return Progress(1 - left / seen.most if seen.most else 1.0, left, eta_s)


Progresses = Mapping[ReplicaKey, Progress]
ShowProgress = Callable[["list[NodeLag]", Progresses, int], None]


@asks
def watch(
    client: StateClient,
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between two updates.")] = 1.0,
    count: Annotated[int, typer.Option("--count", min=0, help="End after this number of updates; 0 never ends.")] = 0,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Watch lag and restore progress live.

    Without a terminal, each update is one line.

    Example: storekeeper watch
    """
    console = Console()
    if output is AnswerOutput.JSON:
        _poll(client, interval, count, lambda nodes, _, now_ms: write_json(summary(nodes, now_ms)))
    elif not console.is_terminal:
        _poll(client, interval, count, lambda nodes, progress, now_ms: typer.echo(line(nodes, progress, now_ms)))
    else:
        with Live(console=console, auto_refresh=False) as live:
            _poll(
                client,
                interval,
                count,
                lambda nodes, progress, now_ms: live.update(picture(nodes, progress, now_ms), refresh=True),
            )


def _poll(client: StateClient, interval_s: float, count: int, show: ShowProgress) -> None:
    pace, clock, polls = RestorePace(), SystemClock(), 0
    while True:
        nodes = client.lag()
        show(nodes, pace.observe(replicas(nodes), clock.monotonic_s()), clock.now_ms())
        polls += 1
        if polls == count:
            return
        time.sleep(interval_s)


def summary(nodes: Iterable[NodeLag], now_ms: int) -> dict[str, Any]:
    """One look as JSON."""
    nodes = list(nodes)
    held = replicas(nodes)
    return {
        "at_ms": now_ms,
        "nodes": [{"node": node.node, "address": node.address, "error": node.error} for node in nodes],
        "replicas": len(held),
        "serving": sum(1 for replica in held if replica["serving"]),
        "offset_lag": _worst(held),
    }


def line(nodes: Iterable[NodeLag], progress: Progresses, now_ms: int) -> str:
    """One look as a line."""
    nodes = list(nodes)
    counts = summary(nodes, now_ms)
    silent = [node.address for node in nodes if node.error is not None]
    parts = [
        iso(now_ms),
        f"{len(nodes) - len(silent)} of {len(nodes)} nodes",
        f"{counts['serving']} of {counts['replicas']} replicas serve",
        f"at most {counts['offset_lag']} records behind",
    ]
    if progress:
        parts.append(f"{sum(one.left for one in progress.values())} records to restore")
    if silent:
        parts.append(f"silent: {' '.join(silent)}")
    return ", ".join(parts)


def picture(nodes: Iterable[NodeLag], progress: Progresses, now_ms: int) -> RenderableType:
    """One look as tables."""
    nodes = list(nodes)
    parts: list[RenderableType] = [Text(iso(now_ms), style="dim"), table(_COLUMNS, _by_store(nodes))]
    parts += [
        Text(f"node {node.node or '?'} at {node.address} does not answer", style="red")
        for node in nodes
        if node.error is not None
    ]
    if progress:
        parts.append(_bars(progress))
    return Group(*parts)


def _by_store(nodes: Iterable[NodeLag]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for replica in replicas(nodes):
        groups.setdefault((replica["node"], replica["store"]), []).append(replica)
    return [
        {
            "node": node,
            "store": store,
            "serving": sum(1 for replica in held if replica["serving"]),
            "replicas": len(held),
            "offset_lag": _worst(held),
        }
        for (node, store), held in sorted(groups.items())
    ]


def _bars(progress: Progresses) -> Table:
    bars = Table.grid(padding=(0, 2))
    for (node, store, partition), one in sorted(progress.items()):
        eta = "waiting" if one.eta_s is None else f"{one.eta_s:.0f} s to go"
        bars.add_row(
            f"{node} {store}-{partition}", ProgressBar(1.0, one.done, width=_BAR_WIDTH), f"{one.left} left", eta
        )
    return bars


def _worst(held: Iterable[Mapping[str, Any]]) -> int:
    return max((replica["offset_lag"] or 0 for replica in held), default=0)
