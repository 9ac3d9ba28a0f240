from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from quality.hadoop_export import EXPORT
from storekeeper.clock import ManualClock
from storekeeper.quality.errors import ReleaseRefusedError
from storekeeper.quality.gate import no_session
from storekeeper.quality.quarantine import Decision, Quarantine
from storekeeper.quality.resolution import Action, Resolution, ResolutionArchive
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import TableGate
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from tests.local_tables import local_table
from tests.staged_lines import line, stage

pytestmark = pytest.mark.spark

CLOCK = ManualClock(now_ms=1_760_000_000_000)
BECAUSE = Decision("meera", "the till rounds to whole rupees")
WRONG_TOTAL = {"TotalValue": Decimal("60.0000")}


@pytest.fixture
def quarantine(settings: QualitySettings, spark: SparkSession) -> Quarantine:
    return quarantine_of(settings, spark)


def quarantine_of(settings: QualitySettings, spark: SparkSession) -> Quarantine:
    return Quarantine(EXPORT.name, TableGate(EXPORT, settings, CLOCK, lambda: spark), settings, CLOCK)


def decide(spark: SparkSession, settings: QualitySettings) -> Status:
    gate = TableGate(EXPORT, settings, CLOCK, lambda: spark)
    batch = gate.pending()
    assert batch is not None
    return gate.decide(batch).status


def published(settings: QualitySettings) -> list[str]:
    table = DeltaTable(local_table(settings, "hadoop_export"))
    return sorted(table.scan(columns=["InvoiceNumber"]).read_all()["InvoiceNumber"].to_pylist())


def test_a_released_batch_is_published_once_with_who_and_why(
    quarantine: Quarantine, spark: SparkSession, settings: QualitySettings
) -> None:
    stage(settings, line(1, **WRONG_TOTAL))
    assert decide(spark, settings) is Status.QUARANTINED
    stage(settings, line(2))
    assert decide(spark, settings) is Status.PUBLISHED
    ((verdict, none),) = quarantine.batches()
    assert (verdict.batch, none) == ("0-0", None)

    with pytest.raises(ReleaseRefusedError, match=r"\[conditions\] TotalValue is ItemPrice x ItemQty"):
        quarantine.release("0-0", BECAUSE)
    assert published(settings) == ["INV-0000000002"]

    let_off = Decision(BECAUSE.by, BECAUSE.reason, ("conditions",))
    released = quarantine.release("0-0", let_off)
    assert (released.action, released.by, released.reason, released.accepted, released.rows) == (
        Action.RELEASED,
        "meera",
        BECAUSE.reason,
        ("conditions",),
        1,
    )
    assert quarantine.release("0-0", let_off) == released
    assert published(settings) == ["INV-0000000001", "INV-0000000002"]
    commit = DeltaTable(local_table(settings, "hadoop_export")).history(1)[0]
    assert '"by":"meera"' in commit["userMetadata"]
    assert quarantine.batches() == [(verdict, released)]
    with pytest.raises(ReleaseRefusedError, match="released by meera"):
        quarantine.discard("0-0", BECAUSE)

    stage(settings, line(3))
    assert decide(spark, settings) is Status.PUBLISHED
    assert published(settings) == ["INV-0000000001", "INV-0000000002", "INV-0000000003"]


def test_rules_of_now_decide_and_masking_is_never_let_off(
    quarantine: Quarantine, spark: SparkSession, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(settings, line(1, InvoiceNumber="1234567890"))
    assert decide(spark, settings) is Status.QUARANTINED
    with pytest.raises(ReleaseRefusedError, match="masking can't be accepted"):
        quarantine.release("0-0", Decision("meera", "why not", ("masking",)))
    with pytest.raises(ReleaseRefusedError, match=r"\[masking\] InvoiceNumber"):
        quarantine.release("0-0", Decision("meera", "why not", ("conditions", "presence", "values")))
    monkeypatch.setattr("storekeeper.quality.suite.CODE_DIGITS", 10)
    longer = quarantine_of(settings, spark)
    assert all(outcome.passed for outcome in longer.check_again("0-0"))
    assert longer.release("0-0", Decision("meera", "our numbers are longer")).accepted == ()
    assert published(settings) == ["1234567890"]


@pytest.mark.long("test_table_gate.py crashes at the same place")
def test_a_crash_after_the_publication_forgets_nothing(
    quarantine: Quarantine, spark: SparkSession, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(settings, line(1, **WRONG_TOTAL))
    decide(spark, settings)

    def crash(archive: ResolutionArchive, resolution: Resolution) -> Path:
        raise RuntimeError("killed")

    with monkeypatch.context() as crashing:
        crashing.setattr(ResolutionArchive, "put", crash)
        with pytest.raises(RuntimeError, match="killed"):
            quarantine.release("0-0", Decision("meera", "rounded", ("conditions",)))
    assert published(settings) == ["INV-0000000001"]
    with pytest.raises(ReleaseRefusedError, match="released by meera"):
        quarantine.discard("0-0", BECAUSE)
    quarantine.release("0-0", BECAUSE)
    assert published(settings) == ["INV-0000000001"]


def test_a_discarded_batch_is_never_released(settings: QualitySettings) -> None:
    verdict = Verdict(EXPORT.name, Status.QUARANTINED, 0, 0, 1, 5, ())
    VerdictArchive(settings.verdict_dir(EXPORT.name)).put(verdict)
    gate = TableGate(EXPORT, settings, CLOCK, no_session)
    quarantine = Quarantine(EXPORT.name, gate, settings, CLOCK)
    with pytest.raises(ReleaseRefusedError, match="who decides and why"):
        quarantine.discard("0-0", Decision("meera", "  "))
    with pytest.raises(ReleaseRefusedError, match="no quarantined batch 3-4; undecided ones: 0-0"):
        quarantine.discard("3-4", BECAUSE)
    discarded = quarantine.discard("0-0", BECAUSE)
    assert discarded.action is Action.DISCARDED
    assert quarantine.discard("0-0", Decision("somebody else", "again")) == discarded
    with pytest.raises(ReleaseRefusedError, match="discarded by meera"):
        quarantine.release("0-0", Decision("meera", "rounded", ("conditions",)))
    assert not local_table(settings, "hadoop_export").exists()
