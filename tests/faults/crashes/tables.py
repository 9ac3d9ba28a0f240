"""The Delta table of the snapshot."""

from __future__ import annotations

from typing import Any

import orjson
from deltalake import DeltaTable

from tests.faults.crashes.oracle import Difference
from tests.integration.app_process import AppProcesses


def snapshot(apps: AppProcesses, rewards: dict[bytes, dict[str, Any]]) -> Difference:
    """How a snapshot that is taken and verified now differs from the store as it must be."""
    for module, command in (("spark_apps", "snapshot"), ("spark_apps.maintenance", "verify")):
        done = apps.run_module(module, command, "rewards")
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    table = DeltaTable(str(apps.run_dir / "delta" / "rewards")).to_pyarrow_table().to_pylist()
    found = [(row["_key"], orjson.loads(row["_value"])["InvoiceCount"], row["TotalLoyaltyPoints"]) for row in table]
    expected = [(key, row["InvoiceCount"], row["TotalLoyaltyPoints"]) for key, row in rewards.items()]
    return Difference.between("Delta, snapshot", expected, found)
