"""`stores`, `lag` and `cluster`: what there is and how it is."""

from __future__ import annotations

from collections.abc import Iterable
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
    write_rows(client.cluster()["members"], as_json=as_json, columns=_MEMBERS)


def replicas(nodes: Iterable[NodeLag]) -> list[dict[str, Any]]:
    """All replicas of nodes that answer."""
    return [replica for node in nodes for replica in node.replicas]
