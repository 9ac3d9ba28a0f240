"""What became of the state, wherever it is kept: in the tasks' local stores, on a query node, in a snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
from deltalake import DeltaTable

from harness.app_process import AppProcesses
from harness.crashes.oracle import Difference, exact, rows
from harness.node_process import NodeProcess
from harness.waiting import eventually
from storekeeper.serdes.timestamped import STAMP_BYTES
from storekeeper.stores.rocksdb_sealed import open_sealed

Rows = Mapping[bytes, dict[str, Any]]

_FOLLOWS_WITHIN_S = 600.0


def local_stores(folder: Path, partitions: Mapping[bytes, int], rewards: Rows) -> Difference:
    """How the tasks' own stores differ, read from their files.

    Args:
        folder: the stores, by partition. No app may run.
        partitions: where each key belongs.
        rewards: the rows that must be there.
    """
    found: list[tuple[Any, ...]] = []
    for partition in sorted(folder.glob("[0-9]")):
        store = open_sealed(partition / "rewards", "rewards")
        try:
            with store.scan(None, None) as stored:
                found += [(int(partition.name), *row) for row in rows({k: exact(v[STAMP_BYTES:]) for k, v in stored})]  # type: ignore[misc]
        finally:
            store.close()
    expected = [(partitions[key], *row) for key, value in rewards.items() for row in rows({key: value})]  # type: ignore[misc]
    return Difference.between("local stores", expected, found)


def query_node(node: NodeProcess, rewards: Rows) -> Difference:
    """How the rows differ that a node answers with once it has followed the changelog to its end."""
    node.wait_ready(_FOLLOWS_WITHIN_S)
    eventually(lambda: _has_followed(node), _FOLLOWS_WITHIN_S, "the node has followed the changelog")
    answer = json.loads(node.get("/state/keyvalues/rewards/all?limit=500").text, parse_float=Decimal)
    found = {row["key"].encode(): row["value"] for row in answer}
    return Difference.between("query node", rows(rewards), rows(found))


def _has_followed(node: NodeProcess) -> bool:
    replicas = node.replicas().values()
    return all(replica["offset"] is not None and replica["offset"] == replica["end_offset"] for replica in replicas)


def snapshot(apps: AppProcesses, rewards: Rows) -> Difference:
    """How a snapshot that is taken and verified now differs from the store as it must be."""
    for command in (("snapshot", "create"), ("verify",)):
        done = apps.run(*command, "rewards", "--output", "json")
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    table = DeltaTable(str(apps.run_dir / "delta" / "rewards")).to_pyarrow_table().to_pylist()
    found = [(row["_key"], orjson.loads(row["_value"])["InvoiceCount"], row["TotalLoyaltyPoints"]) for row in table]
    expected = [(key, row["InvoiceCount"], row["TotalLoyaltyPoints"]) for key, row in rewards.items()]
    return Difference.between("Delta, snapshot", expected, found)
