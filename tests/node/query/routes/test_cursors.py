"""Cursors while the topic behind a store changes."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from storekeeper.stores.store_definitions import parse_definitions
from tests.node.query import cluster as cluster_module
from tests.node.query.cluster import Cluster


@pytest.mark.parametrize("path", ["keyvalues/{}/all?", "ranked/{}/top?", "ranked/{}/scores/0/9?"])
def test_a_cursor_goes_on_after_another_topic_has_taken_over(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = "players@players-2"

    def definitions(stores: str) -> dict[str, Any]:
        known = parse_definitions(stores)
        return {**known, variant: dataclasses.replace(known["players"], topic="players-2")}

    async def check() -> None:
        cluster = Cluster()
        for number in range(4):
            for store in ("players", variant):
                cluster.write(store, b"%d" % number, b'{"Score":%d}' % number)
        first = await cluster.get("a", f"/state/{path.format('players')}limit=2")
        cursor = first.headers["storekeeper-next-cursor"]
        after = await cluster.get("b", f"/state/{path.format(variant)}cursor={cursor}")
        assert after.status_code == 200, after.text
        assert sorted(row["key"] for row in first.json() + after.json()) == ["0", "1", "2", "3"]

    monkeypatch.setattr(cluster_module, "parse_definitions", definitions)
    asyncio.run(check())
