from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_apps.pos import POS
from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition, Leaks, WithTable
from storekeeper.apps.registry import store_named, stores
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.errors import InvalidArgumentError, SnapshotDamagedError
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import GenerationState, JournalFile
from storekeeper.generations.steps import planned
from storekeeper.quality.errors import ReleaseRefusedError, StagedTableError, ValidationError
from storekeeper.quality.gate import Batch
from storekeeper.quality.quarantine import Decision, Quarantine
from storekeeper.quality.resolution import last_good_version
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.snapshot_gate import SnapshotGate, table_of
from storekeeper.quality.verdict import Status, Verdict
from storekeeper.snapshots.manifest import SnapshotManifest
from tests.local_tables import local_table
from tests.snapshot_tables import sealed_at

(REWARDS,) = POS.stores
POINTS = CheckedColumn("TotalLoyaltyPoints", "decimal(18,4)")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("CustomerCardNo", pa.string()),
        ("TotalLoyaltyPoints", pa.decimal128(18, 4)),
        ("InvoiceCount", pa.int64()),
        ("LastInvoiceTime", pa.timestamp("us", "UTC")),
        ("_partition", pa.int32()),
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
        "_partition": 0,
        "_key": card.encode(),
        **changes,
    }


def snapshot(path: Path, version: int, rows: list[dict[str, Any]], *, schema: pa.Schema = SCHEMA, **more: Any) -> None:
    manifest = SnapshotManifest("rewards", "pos", 1, 1, "log", {}, Position(), len(rows), {}, "test", version, **more)
    committed(path, pa.Table.from_pylist(rows, schema=schema), manifest)


def committed(path: Path, rows: pa.Table, manifest: SnapshotManifest) -> None:
    metadata = CommitProperties(custom_metadata={"userMetadata": manifest.to_json()})
    with sealed_at(path).writing():
        write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", commit_properties=metadata)


@pytest.fixture
def path(settings: QualitySettings) -> Path:
    return local_table(settings, "rewards")


@pytest.fixture
def gate(settings: QualitySettings) -> SnapshotGate:
    return SnapshotGate(REWARDS, settings, ManualClock(5))


def decide(gate: SnapshotGate) -> Verdict:
    batch = gate.pending()
    assert batch is not None
    verdict = gate.decide(batch)
    assert verdict.passed == (not verdict.reasons)
    assert gate.pending() is None
    assert gate.last_verdict() == verdict
    return verdict


def declare(monkeypatch: pytest.MonkeyPatch, *columns: CheckedColumn, **rules: Any) -> None:
    """Declares more about the snapshots of `rewards`."""
    declared = replace(POS, tables=(CheckedTable("rewards", columns, **rules),))
    monkeypatch.setattr("storekeeper.quality.snapshot_gate.APPS", {"pos": declared})


def test_a_good_snapshot_passes_and_has_data_docs(gate: SnapshotGate, path: Path, settings: QualitySettings) -> None:
    assert gate.pending() is None
    assert gate.last_verdict() is None
    snapshot(path, 0, [row("a"), row("b")])
    assert decide(gate).status is Status.PASSED
    snapshot(path, 1, [row("a", "11", 3), row("c")])
    verdict = decide(gate)
    assert (verdict.status, verdict.rows, verdict.batch) == (Status.PASSED, 2, "1-1")
    assert (settings.data_docs_dir("rewards") / "index.html").is_file()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row("a", "-0.0001"), "TotalLoyaltyPoints is at least 0. Failing rows: 1."),
        (row("a", count=None), "InvoiceCount is always there. Failing rows: 1."),
        (row("a", count=1), "InvoiceCount is not less than in an earlier snapshot. Failing rows: 1."),
        (row("a", "9.9999"), "TotalLoyaltyPoints is not less than in an earlier snapshot. Failing rows: 1."),
        (
            row("a", LastInvoiceTime=NOON - datetime.timedelta(seconds=1)),
            "LastInvoiceTime is not less than in an earlier snapshot. Failing rows: 1.",
        ),
    ],
)
def test_a_bad_row_is_told_by_rule_and_number_and_never_by_value(
    gate: SnapshotGate, path: Path, bad: dict[str, Any], reason: str
) -> None:
    snapshot(path, 0, [row("a"), row("b")])
    snapshot(path, 1, [bad, row("b"), row("c")])
    assert reason in decide(gate).reasons


def test_a_quarantined_snapshot_is_released_by_a_person_and_readers_stay_at_the_last_good_one(
    gate: SnapshotGate, path: Path, settings: QualitySettings
) -> None:
    with pytest.raises(InvalidArgumentError, match="no version of table rewards is good yet"):
        last_good_version(settings.run_dir, "rewards")
    snapshot(path, 0, [row("a"), row("b")])
    decide(gate)
    snapshot(path, 1, [row("a", count=1), row("b")])
    assert decide(gate).status is Status.QUARANTINED
    assert last_good_version(settings.run_dir, "rewards") == 0
    quarantine = Quarantine("rewards", gate, settings, ManualClock(6))
    with pytest.raises(ReleaseRefusedError, match=r"\[only_grows\] InvoiceCount"):
        quarantine.release("1-1", Decision("meera", "a return"))
    released = quarantine.release("1-1", Decision("meera", "a return", ("only_grows",)))
    assert (released.by, released.rows) == ("meera", 2)
    assert last_good_version(settings.run_dir, "rewards") == 1
    snapshot(path, 2, [row("a", "-1", count=1), row("b")])
    decide(gate)
    quarantine.discard("2-2", Decision("meera", "a mistake"))
    assert last_good_version(settings.run_dir, "rewards") == 1
    assert last_good_version(settings.run_dir, "hadoop_export") is None


@pytest.mark.parametrize("readable", [True, False])
def test_what_fell_is_still_less_in_the_next_snapshot_unless_the_last_good_one_is_gone(
    gate: SnapshotGate, path: Path, settings: QualitySettings, *, readable: bool
) -> None:
    snapshot(path, 0, [row("a", count=9)])
    assert decide(gate).passed
    good = DeltaTable(path).file_uris()
    for version in (1, 2):
        snapshot(path, version, [row("a", count=8)])
        assert decide(gate).reasons == ("InvoiceCount is not less than in an earlier snapshot. Failing rows: 1.",)
        assert last_good_version(settings.run_dir, "rewards") == 0
    if not readable:
        with sealed_at(path).writing():
            for file in good:
                Path(file).unlink()
    snapshot(path, 3, [row("a", count=8)])
    assert decide(gate).passed is not readable


def test_a_key_in_several_partitions_is_compared_with_its_row_of_the_same(
    gate: SnapshotGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, CheckedColumn("CustomerCardNo", "string"), unique=("CustomerCardNo",))
    for version, counts in enumerate(((10, 100), (11, 101))):
        rows = [row("a", count=counts[0]), row("b", count=counts[1], _partition=1, _key=b"a")]
        snapshot(path, version, rows)
        verdict = decide(gate)
        assert verdict.passed
        assert verdict.rows == 2
    snapshot(path, 2, [row("a", count=12), row("b", count=100, _partition=1, _key=b"a")])
    assert decide(gate).reasons == ("InvoiceCount is not less than in an earlier snapshot. Failing rows: 1.",)


def test_a_snapshot_is_compared_with_one_that_was_released(
    gate: SnapshotGate, path: Path, settings: QualitySettings
) -> None:
    for version, count in enumerate((9, 8)):
        snapshot(path, version, [row("a", count=count)])
        decide(gate)
    decision = Decision("meera", "a return", ("only_grows",))
    Quarantine("rewards", gate, settings, ManualClock(6)).release("1-1", decision)
    snapshot(path, 2, [row("a", count=8)])
    assert decide(gate).passed


def test_a_version_that_is_gone_is_not_released(gate: SnapshotGate, path: Path) -> None:
    snapshot(path, 0, [row("a")])
    with pytest.raises(StagedTableError, match="has no snapshot of version 7 any more"):
        gate.check_again(Batch(7, 7), lambda _: None)


def test_a_table_that_began_anew_is_judged_anew(gate: SnapshotGate, path: Path) -> None:
    for version in range(2):
        snapshot(path, version, [row("a", "-1")])
        decide(gate)
    path.rename(path.with_name("before"))
    sealed_at(path).file.unlink(missing_ok=True)
    snapshot(path, 0, [row("a")])
    assert (decide(gate).batch, gate.pending()) == ("0-0", None)


def test_what_an_app_declares_beside_its_fields_is_checked_too(
    gate: SnapshotGate, path: Path, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(path, 0, [row("a"), row("9889127612"), row("YSBwaG9uZTogOTg4OTEyNzYxMg=="), row("c", "10", 900)])
    assert decide(gate).passed
    snapshot(path, 1, [row("a"), row("9889127612"), row("YSBwaG9uZTogOTg4OTEyNzYxMg=="), row("c", "10", 900)])
    declare(
        monkeypatch,
        CheckedColumn("CustomerCardNo", "string", leaks=Leaks.CODE),
        CheckedColumn("InvoiceCount", "bigint", most=800),
        POINTS,
        unique=("TotalLoyaltyPoints",),
        conditions=(Condition("Points come from invoices.", "{TotalLoyaltyPoints} <= 4 * {InvoiceCount}"),),
        reconcile=(WithTable("cards", sum="InvoiceCount"),),
    )
    settings = settings.model_copy(update={"quality_reconcile": True})
    verdict = decide(SnapshotGate(REWARDS, settings, ManualClock(6)))
    assert verdict.reasons == (
        "CustomerCardNo doesn't hold a card or phone number. Failing rows: 1.",
        "InvoiceCount is from 0 to 800. Failing rows: 1.",
        "Points come from invoices. Failing rows: 3.",
        "Each row is there once, by TotalLoyaltyPoints. Failing rows: 4.",
        "No text decodes to a card or phone number or an address. Failing rows: 1.",
        "The batch can be compared with table cards.",
    )


def test_a_condition_that_is_no_sql_decides_nothing(
    gate: SnapshotGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, POINTS, conditions=(Condition("x", "{TotalLoyaltyPoints} is small"),))
    snapshot(path, 0, [row("a")])
    with pytest.raises(ValidationError, match=r"condition '\{TotalLoyaltyPoints\} is small\' of table rewards"):
        decide(gate)
    assert gate.pending() is not None


def test_the_hook_of_a_store_is_told(gate: SnapshotGate, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: list[Any] = []
    declare(monkeypatch, notify=verdicts.append)
    snapshot(path, 0, [row("a", "-1")])
    decide(gate)
    gate.check_again(Batch(0, 0), lambda _: None)
    assert [(verdict["table"], verdict["status"]) for verdict in verdicts] == [("rewards", "quarantined")]


def test_a_snapshot_has_as_many_rows_and_the_same_sums_as_another_table(
    gate: SnapshotGate, path: Path, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = WithTable("cards", group_by=("CustomerCardNo",), sum="InvoiceCount")
    declare(
        monkeypatch,
        CheckedColumn("CustomerCardNo", "string"),
        CheckedColumn("InvoiceCount", "bigint"),
        reconcile=(rule,),
    )
    write_deltalake(
        local_table(settings, "cards"),
        pa.table({"CustomerCardNo": ["a", "a", "b", "elsewhere"], "InvoiceCount": [1, 1, 3, 9]}),
    )
    gate = SnapshotGate(REWARDS, settings.model_copy(update={"quality_reconcile": True}), ManualClock(5))
    snapshot(path, 0, [row("a"), row("b")])
    assert decide(gate).reasons == (
        "There are as many rows as in table cards for each CustomerCardNo. Failing rows: 1.",
        (
            "The sum of InvoiceCount equals that of table cards for each CustomerCardNo; each failing row is a group. "
            "Failing rows: 1."
        ),
    )


def test_shares_are_compared_with_the_good_snapshots_before(
    gate: SnapshotGate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, CheckedColumn("InvoiceCount", "bigint", drift=True))
    snapshot(path, 0, [row(str(card)) for card in range(600)])
    assert decide(gate).profile == {"InvoiceCount": {"2": 600}}
    snapshot(path, 1, [row(str(card), count=40) for card in range(600)])
    [reason] = decide(gate).reasons
    assert reason.startswith("InvoiceCount is distributed as in the batches before")


def test_a_table_that_something_else_wrote_to_is_not_judged(gate: SnapshotGate, path: Path) -> None:
    snapshot(path, 0, [row("a"), row("b")])
    DeltaTable(path).update(updates={"InvoiceCount": "InvoiceCount + 1"})
    with pytest.raises(SnapshotDamagedError, match=r"_delta_log/0+1\.json was added by UPDATE"):
        gate.pending()


def test_a_nullable_field_is_not_owed() -> None:
    players = table_of(store_named("players"))
    assert [column.name for column in players.columns if column.nullable] == ["Name"]


def test_the_snapshot_of_another_generation_is_judged_by_its_own_fields_and_not_by_the_one_before(
    gate: SnapshotGate, path: Path, settings: QualitySettings
) -> None:
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    second = replace(journal.generation(2), state=GenerationState.LIVE)
    JournalFile(settings.run_dir, "pos").write(replace(journal.updated(second), live=2))
    snapshot(path, 0, [row("a", count=9)])
    # Handed over, but the newest snapshot is still of the generation before.
    assert decide(gate).reasons == ()
    new = [
        {
            "CustomerCardNo": "a",
            "Tier": None,
            "TotalLoyaltyPointsCents": 10,
            "HundredthsOfCent": 0,
            "InvoiceCount": 2,
            "LastInvoiceTime": NOON,
            "_partition": 0,
            "_key": b"a",
        }
    ]
    manifest = SnapshotManifest("rewards", "pos", 2, 2, second.topics["rewards"], {}, Position(), 1, {}, "test", 1)
    schema = pa.schema([*SECOND, ("_partition", pa.int32()), ("_key", pa.binary())])
    committed(path, pa.Table.from_pylist(new, schema=schema), manifest)
    assert decide(gate).reasons == ("Tier is always there. Failing rows: 1.",)


def by_schema(path: Path, version: int, rows: list[dict[str, Any]], *missing: str, **types: str) -> None:
    """A snapshot of values by a schema that lacks fields yet, or has columns of a wider type."""
    arrow = {"bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
    columns = {item.name: item.sql_type for item in REWARDS.value_fields if item.name not in missing} | types
    kept = [field for field in SCHEMA if field.name not in missing]
    schema = pa.schema([field.with_type(arrow[types[field.name]]) if field.name in types else field for field in kept])
    snapshot(path, version, rows, schema=schema, columns=columns, by_schema=True)


def test_a_snapshot_is_checked_by_its_own_columns_where_the_schema_has_got_more(
    path: Path, settings: QualitySettings
) -> None:
    gate = SnapshotGate(replace(REWARDS, by_schema=True), settings, ManualClock(5))
    by_schema(path, 0, [row("a"), row("b")], "InvoiceCount")
    assert decide(gate).reasons == ()
    by_schema(path, 1, [row("a", "9", 1)])
    assert decide(gate).reasons == ("TotalLoyaltyPoints is not less than in an earlier snapshot. Failing rows: 1.",), (
        "a column that is new has no earlier value"
    )
    by_schema(path, 2, [row("a", "9", None), row("b", "9", -1)])
    assert "InvoiceCount is always there. Failing rows: 1." in decide(gate).reasons
    by_schema(path, 3, [row("a", "10", "few")], InvoiceCount="string")  # type: ignore[arg-type]
    assert decide(gate).reasons == ()


def test_a_snapshot_without_a_column_that_is_declared_is_not_decided(
    path: Path, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, CheckedColumn("InvoiceCount", "bigint", most=5))
    gate = SnapshotGate(replace(REWARDS, by_schema=True), settings, ManualClock(5))
    by_schema(path, 0, [row("a")], "InvoiceCount")
    batch = gate.pending()
    assert batch is not None
    with pytest.raises(StagedTableError, match=r"it has no field InvoiceCount.*take a new one"):
        gate.decide(batch)
    by_schema(path, 1, [row("a", count=6)])
    assert decide(gate).reasons == ("InvoiceCount is from 0 to 5. Failing rows: 1.",)


def test_every_store_has_something_that_is_checked() -> None:
    for store in stores().values():
        assert table_of(store).columns
