"""`stores`, `lag` and `cluster`: the stores, replicas and nodes, and their state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from state.cli.asking import ERROR, AsJson, asks, fail
from state.cli.output import write_rows

if TYPE_CHECKING:
    from state.client import NodeLag, StateClient

_STORES = ("store", "topic", "kind", "backend", "partitions", "approximate_num_entries")
_LAG = (
    "node",
    "store",
    "partition",
    "role",
    "state",
    "offset",
    "end_offset",
    "offset_lag",
    "skipped_records",
    "unranked_rows",
    "error",
)
_MEMBERS = ("name", "address", "rack", "state", "active", "standby")


@asks
def stores(client: StateClient, as_json: AsJson = False) -> None:
    """List the stores with their partitions and sizes."""
    write_rows(client.stores(), as_json=as_json, columns=_STORES)


@asks
def lag(client: StateClient, as_json: AsJson = False) -> None:
    """Show how far each replica is behind its changelog; exit code 1 unless all of them answer."""
    nodes = client.lag()
    write_rows(replicas(nodes), as_json=as_json, columns=_LAG)
    for node in nodes:
        if node.error is not None:
            fail(f"node {node.address} does not answer: {node.error}", ERROR)
    if not all(replica["serving"] for replica in replicas(nodes)):
        raise typer.Exit(ERROR)


@asks
def cluster(client: StateClient, as_json: AsJson = False) -> None:
    """Show the nodes of the cluster and what each holds."""
    members = client.cluster()["members"]
    write_rows(members if as_json else map(member_row, members), as_json=as_json, columns=_MEMBERS)


def member_row(member: Mapping[str, Any]) -> dict[str, Any]:
    """A member of `/state/cluster` as a row of the table."""
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
        return "not heard yet"
    if member["suspect"]:
        return f"silent for {member['silent_s']:.0f} s"
    return "settling" if member["settling"] else "alive"


def replicas(nodes: Iterable[NodeLag]) -> list[dict[str, Any]]:
    """All replicas of nodes that answer."""
    return [replica for node in nodes for replica in node.replicas]
