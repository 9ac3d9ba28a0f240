"""`stores`: the stores, replicas and nodes, their state and their progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storekeeper.cli.asking import asks
from storekeeper.cli.output import ListOption, ListOutput, say, write_rows
from storekeeper.program import ExitCode

if TYPE_CHECKING:
    from storekeeper.client.client import StateClient
    from storekeeper.client.readings import NodeLag

_STORES = ("store", "kind", "backend", "partitions")
_REPLICAS = ("node", "store", "partition", "role", "state", "offset_lag", "notes")
_MEMBERS = ("name", "address", "rack", "state", "active", "standby")


@asks
def stores(
    client: StateClient,
    each: Annotated[
        bool, typer.Option("--replicas", help="Show each replica, and how far it is behind its changelog.")
    ] = False,
    nodes: Annotated[
        bool,
        typer.Option("--nodes", help="Show each node and what it holds: nothing if it is silent for long."),
    ] = False,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """List the stores, their replicas, or the nodes.

    With --replicas, exit code 4: a node does not answer, or a replica does not serve.

    Example: storekeeper stores --replicas
    """
    if each and nodes:
        raise typer.BadParameter("does not go with --replicas", param_hint="--nodes")
    if nodes:
        _write_nodes(client.cluster(), output)
    elif each:
        _write_replicas(client.lag(), output)
    else:
        write_rows(client.stores(), output, _STORES)


def _write_replicas(nodes: Sequence[NodeLag], output: ListOutput) -> None:
    held = replicas(nodes)
    write_rows(map(_with_notes, held) if output is ListOutput.TABLE else held, output, _REPLICAS)
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


def _write_nodes(view: Mapping[str, Any], output: ListOutput) -> None:
    members = [*view["members"], *view["missing"]]
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
