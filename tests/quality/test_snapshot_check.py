from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from great_expectations.expectations import ExpectColumnValuesToNotBeNull

from quality.snapshot_check import check_snapshot
from quality.snapshot_suite import snapshot_expectations
from spark_apps.apps.pos import POS
from spark_apps.generations.catalog import first_journal
from spark_apps.generations.journal import GenerationState, JournalFile
from spark_apps.generations.steps import planned
from spark_apps.registry import store_named, stores
from spark_apps.settings import AppSettings
from state.changelog.position import Position
from state.errors import SnapshotDamagedError
from state.snapshots.manifest import SnapshotManifest

(REWARDS,) = POS.stores
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("CustomerCardNo", pa.string()),
        ("TotalLoyaltyPoints", pa.decimal128(18, 4)),
        ("InvoiceCount", pa.int64()),
        ("LastInvoiceTime", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
    ]
)
SECOND = [
    ("CustomerCardNo", pa.string()),
    ("Tier", pa.string()),
    ("TotalLoyaltyPointsCents", pa.int64()),
    ("HundredthsOfCent", pa.int32()),
    ("InvoiceCount", pa.int64()),
    ("LastInvoiceTime", pa.timestamp("us", "UTC")),
]


def row(card: str, points: str = "10", count: int | None = 2, **changes: Any) -> dict[str, Any]:
    return {
        "CustomerCardNo": card,
        "TotalLoyaltyPoints": Decimal(points),
        "InvoiceCount": count,
        "LastInvoiceTime": NOON,
        "_key": card.encode(),
        **changes,
    }


def snapshot(path: Path, version: int, rows: list[dict[str, Any]]) -> None:
    manifest = SnapshotManifest("rewards", "pos", 1, 1, "log", {}, Position(), len(rows), {}, "test", version)
    write_deltalake(
        path,
        pa.Table.from_pylist(rows, schema=SCHEMA),
        mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
    )


def reasons(path: Path) -> tuple[str, ...]:
    verdict = check_snapshot(REWARDS, path, 5, AppSettings(run_dir=path))
    assert verdict is not None
    assert verdict.passed == (not verdict.reasons)
    return verdict.reasons


def test_a_good_snapshot_passes_and_says_what_it_was_compared_with(tmp_path: Path) -> None:
    assert check_snapshot(REWARDS, tmp_path, 5, AppSettings(run_dir=tmp_path)) is None
    snapshot(tmp_path, 0, [row("a"), row("b")])
    snapshot(tmp_path, 1, [row("a", "11", 3), row("c")])
    verdict = check_snapshot(REWARDS, tmp_path, 5, AppSettings(run_dir=tmp_path))
    assert verdict is not None
    assert verdict.passed, verdict.reasons
    assert verdict.details == {"rows": 2, "delta_version": 1, "compared_with_version": 0}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row("a", "-0.0001"), "TotalLoyaltyPoints must not be negative. Failing rows: 1."),
        (row("a", count=None), "InvoiceCount must be there. Failing rows: 1."),
        (row("a", count=1), "InvoiceCount must not be less than in the snapshot before. Failing rows: 1."),
        (row("a", "9.9999"), "TotalLoyaltyPoints must not be less than in the snapshot before. Failing rows: 1."),
        (
            row("a", LastInvoiceTime=NOON - datetime.timedelta(seconds=1)),
            "LastInvoiceTime must not be less than in the snapshot before. Failing rows: 1.",
        ),
    ],
)
def test_a_bad_row_is_told_by_rule_and_number_and_never_by_value(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    snapshot(tmp_path, 0, [row("a"), row("b")])
    snapshot(tmp_path, 1, [bad, row("b"), row("c")])
    assert reason in reasons(tmp_path)


def test_a_table_that_something_else_wrote_to_is_not_judged(tmp_path: Path) -> None:
    snapshot(tmp_path, 0, [row("a"), row("b")])
    DeltaTable(tmp_path).update(updates={"InvoiceCount": "InvoiceCount + 1"})
    with pytest.raises(SnapshotDamagedError, match=r"version 1 \(UPDATE\)"):
        check_snapshot(REWARDS, tmp_path, 5, AppSettings(run_dir=tmp_path))


def test_a_nullable_field_is_not_owed() -> None:
    players = store_named("players")
    expected = {
        item.column for item in snapshot_expectations(players) if isinstance(item, ExpectColumnValuesToNotBeNull)
    }
    assert expected == {item.name for item in players.value_fields} - {"Name"}


def test_the_snapshot_of_another_generation_is_judged_by_its_own_fields_and_not_by_the_one_before(
    tmp_path: Path,
) -> None:
    settings = AppSettings(run_dir=tmp_path)
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    second = replace(journal.generation(2), state=GenerationState.LIVE)
    JournalFile(tmp_path, "pos").write(replace(journal.updated(second), live=2))
    table = tmp_path / "table"
    snapshot(table, 0, [row("a", count=9)])
    # Handed over, but the newest snapshot is still of the generation before.
    verdict = check_snapshot(REWARDS, table, 5, settings)
    assert verdict is not None
    assert verdict.passed, verdict.reasons
    new = [
        {
            "CustomerCardNo": "a",
            "Tier": None,
            "TotalLoyaltyPointsCents": 10,
            "HundredthsOfCent": 0,
            "InvoiceCount": 2,
            "LastInvoiceTime": NOON,
            "_key": b"a",
        }
    ]
    manifest = SnapshotManifest("rewards", "pos", 2, 2, second.topics["rewards"], {}, Position(), 1, {}, "test", 1)
    write_deltalake(
        table,
        pa.Table.from_pylist(new, schema=pa.schema([*SECOND, ("_key", pa.binary())])),
        mode="overwrite",
        schema_mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
    )
    verdict = check_snapshot(REWARDS, table, 5, settings)
    assert verdict is not None
    assert verdict.reasons == ("Tier must be there. Failing rows: 1.",)
    assert verdict.details["compared_with_version"] is None


def test_every_store_has_a_suite() -> None:
    for store in stores().values():
        assert snapshot_expectations(store)
