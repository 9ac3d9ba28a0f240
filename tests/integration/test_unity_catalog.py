"""Tables entered in a real Unity Catalog by the command, found there by name, and read where it says they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from harness.app_process import AppProcesses
from harness.unity_catalog import CATALOGUE, SCHEMA, UnityProcess, is_built
from spark_apps.pos import POS
from storekeeper.program import ExitCode
from storekeeper.snapshots.columns import PLACE_MEANINGS
from tests.snapshot_tables import Row, manifest_of, write_snapshot

pytestmark = [
    pytest.mark.long("storekeeper/snapshots/catalogue/test_unity.py has the entries"),
    pytest.mark.timeout(900),
]

REWARDS = POS.stores[0]
VALUE = b'{"CustomerCardNo":"C%d","TotalLoyaltyPoints":1.5000,"InvoiceCount":%d,"LastInvoiceTime":1000}'
BOTH = ["rewards", "hadoop_export"]


@pytest.fixture
def unity(tmp_path: Path) -> Iterator[UnityProcess]:
    if not is_built():
        pytest.skip("Unity Catalog is not there: run `make setup-unity`")
    server = UnityProcess(tmp_path / "unity")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_tables_are_entered_found_by_name_and_read(unity: UnityProcess, tmp_path: Path) -> None:
    run_dir = tmp_path / "a run"
    held = [Row(0, number, 1000, b"C%d" % number, VALUE % (number, number)) for number in range(5)]
    manifest = manifest_of(held, store="rewards", app="pos", changelog_topic=REWARDS.changelog_topic)
    write_snapshot(run_dir / "delta" / "rewards", held, REWARDS.value_fields, manifest=manifest)
    export = run_dir / "delta" / "hadoop_export"
    write_deltalake(export, pa.table({"InvoiceNumber": ["1", "2"], "City": ["Bern", None]}))
    apps = AppProcesses(run_dir, "127.0.0.1:9", patience_s=600)

    def registered(schema: str = f"{CATALOGUE}.{SCHEMA}") -> dict[str, Any]:
        done = apps.run("tables", "--register", "--unity", unity.address, "--schema", schema, "--output", "json")
        assert done.returncode == 0, done.stderr[-3000:]
        answer: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
        return answer

    def entry(name: str) -> dict[str, Any]:
        found: dict[str, Any] = unity.ask("GET", f"/tables/{CATALOGUE}.{SCHEMA}.{name}").json()
        return found

    def read(found: dict[str, Any]) -> pa.Table:
        return DeltaTable(found["storage_location"]).to_pyarrow_table()

    assert registered() == {"tables": BOTH, "changed": BOTH}
    assert registered() == {"tables": BOTH, "changed": []}
    rewards = entry("rewards")
    comments = {column["name"]: column["comment"] for column in rewards["columns"]}
    assert PLACE_MEANINGS.items() <= comments.items()
    assert comments["InvoiceCount"] == "How many invoices earned points."
    assert rewards["comment"] == f"Snapshots of store rewards of app pos: {POS.title}."
    assert (
        sum(row["InvoiceCount"] for row in DeltaTable(rewards["storage_location"]).to_pyarrow_table().to_pylist()) == 10
    )

    more = pa.table({"InvoiceNumber": ["3"], "City": ["Ulm"], "State": ["BW"]})
    write_deltalake(export, more, mode="append", schema_mode="merge")
    assert registered() == {"tables": BOTH, "changed": ["hadoop_export"]}
    columns = [(column["name"], column["type_text"]) for column in entry("hadoop_export")["columns"]]
    assert columns == [("InvoiceNumber", "string"), ("City", "string"), ("State", "string")]
    assert sorted(read(entry("hadoop_export"))["InvoiceNumber"].to_pylist()) == ["1", "2", "3"]

    done = apps.run("tables", "--register", "--unity", unity.address, "--schema", f"{CATALOGUE}.no_such")
    assert done.returncode == ExitCode.CONFIGURATION, done.stderr[-3000:]
    assert "no_such" in done.stderr
