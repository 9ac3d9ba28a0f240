"""Every read says in the OpenAPI document which requirements it takes."""

from __future__ import annotations

import asyncio

import pytest

from tests.node.query.cluster import Cluster

REQUIREMENTS = {"partial", "max_staleness_ms", "max_lag", "position", "wait_ms", "stale", "deadline_ms"}
KINDS = ("keyvalues", "windowed", "sessions", "versions", "ranked")


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_documents_its_requirements(kind: str) -> None:
    paths = asyncio.run(Cluster(partitions=1).get("a", "/openapi.json")).json()["paths"]
    reads = [way for path, ways in paths.items() if path.startswith(f"/state/{kind}/") for way in ways.values()]
    assert reads
    for read in reads:
        assert {parameter["name"] for parameter in read["parameters"]} >= REQUIREMENTS
