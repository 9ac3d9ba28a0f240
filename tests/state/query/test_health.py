"""When a node says that it is ready."""

from __future__ import annotations

from collections.abc import Sequence

from state.cluster.routing import Tolerance, routing_table
from state.cluster.view import Member
from state.query.assignment import Assignment
from state.query.catalog import Catalog
from state.query.definitions import StoreDefinition
from state.query.health import readiness

MEMBERS = [Member(name, f"http://{name}", heard=True) for name in "ab"]


def catalog_of(nodes: Sequence[str]) -> Catalog:
    """Of node `b`, which holds nothing yet."""
    found = Catalog("b", {"b": "http://b"}, {"s": StoreDefinition("s", "t")})
    found.follow(routing_table(Assignment(nodes, {"s": 1}, 0), MEMBERS, Tolerance()), {})
    return found


def test_a_newcomer_is_not_ready_before_it_is_counted_on() -> None:
    found = readiness(catalog_of(["a"]))
    assert (found.ready, "just joined" in found.reason) == (False, True)
    assert readiness(catalog_of(["a", "b"])).ready
