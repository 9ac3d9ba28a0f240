"""What Prometheus is told of apps, snapshots and verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from spark_apps.pos import POS
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import Generation, GenerationState, JournalFile
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.prometheus import PlatformCollector
from storekeeper.ops.platform_metrics import platform_metrics
from storekeeper.quality.resolution import Action, Resolution, ResolutionArchive
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from storekeeper.verification.check_verdict import CheckVerdict, put_verdict
from tests.ops.observability.scraped import PLATFORM, documented, uses_of
from tests.ops.observability.scraped import Scrape as Scraped

NOW_MS = 1_700_000_000_000
BEAT = Heartbeat(
    "pos",
    2,
    7,
    AppState.RUNNING,
    started_at_ms=NOW_MS - 60_000,
    updated_at_ms=NOW_MS - 1000,
    last_progress_ms=NOW_MS - 2000,
    batch_duration_ms=250,
    input_rows_total=12,
    batches_total=3,
    dead_letters_total=1,
    dropped_total=2,
    restoring=({"store": "rewards", "partition": 3, "done": 10, "total": 25, "eta_s": 1.5},),
    phases_ms_total={"addBatch": 600},
    starts=4,
    offsets={"pos": {"0": 10, "1": 5}},
    latest_offsets={"pos": {"0": 17, "1": 5}},
)

Scrape = Callable[[], str]


@pytest.fixture
def scrape(tmp_path: Path) -> Scrape:
    registry = CollectorRegistry()
    registry.register(PlatformCollector(RunLayout(tmp_path), ManualClock(NOW_MS)))
    return lambda: generate_latest(registry).decode()


def samples(lines: list[str]) -> list[str]:
    """The samples without their values."""
    return [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]


def beat(tmp_path: Path, heartbeat: Heartbeat) -> None:
    write_heartbeat(RunLayout(tmp_path).heartbeat(heartbeat.app), heartbeat)


def test_what_an_app_says_is_told(tmp_path: Path, scrape: Scrape) -> None:
    beat(tmp_path, BEAT)
    lines = scrape().splitlines()
    for line in (
        'spark_app_up{app="pos"} 1.0',
        'spark_app_state{app="pos",state="RUNNING"} 1.0',
        'spark_app_state{app="pos",state="FAILED"} 0.0',
        'spark_app_starts_total{app="pos"} 4.0',
        'spark_app_last_batch_seconds{app="pos"} 0.25',
        'spark_app_batch_phase_seconds_total{app="pos",phase="addBatch"} 0.6',
        'spark_app_lag_records{app="pos",partition="0",topic="pos"} 7.0',
        'spark_app_lag_records{app="pos",partition="1",topic="pos"} 0.0',
        'spark_app_dropped_records_total{app="pos"} 2.0',
        'spark_app_restore_remaining_records{app="pos"} 15.0',
    ):
        assert line in lines
    assert "spark_app_watermark_timestamp_seconds{" not in scrape(), "an app that has seen no record has none"


@pytest.mark.parametrize(
    "ill",
    [
        replace(BEAT, state=AppState.FAILED),
        replace(BEAT, state=AppState.STARTING),
        replace(BEAT, updated_at_ms=NOW_MS - 30_001),
    ],
)
def test_an_app_is_up_only_by_its_own_fresh_word(tmp_path: Path, scrape: Scrape, ill: Heartbeat) -> None:
    beat(tmp_path, ill)
    assert 'spark_app_up{app="pos"} 0.0' in scrape()


def test_snapshots_and_verdicts_are_told(tmp_path: Path, scrape: Scrape) -> None:
    log = tmp_path / "delta" / "rewards" / "_delta_log"
    log.mkdir(parents=True)
    manifest = ',"userMetadata":"{\\"changelog_offsets\\":{}}"'
    for number, snapshot in enumerate((manifest, manifest, "")):
        made_ms = 1_000_000 + 1000 * number
        (log / f"{number:020}.json").write_text(f'{{"commitInfo":{{"timestamp":{made_ms}{snapshot}}}}}')
    archive = VerdictArchive(tmp_path / "quality" / "verdicts" / "hadoop_export")
    archive.put(Verdict("hadoop_export", Status.PUBLISHED, 0, 1, 5, 500_000))
    archive.put(Verdict("hadoop_export", Status.QUARANTINED, 2, 3, 6, 600_000))
    lines = scrape().splitlines()
    assert 'state_snapshot_timestamp_seconds{store="rewards"} 1001.0' in lines, "not when its files were joined"
    assert 'quality_verdict_passed{table="hadoop_export"} 0.0' in lines
    assert 'quality_verdict_timestamp_seconds{table="hadoop_export"} 600.0' in lines
    assert 'quality_verdict_rows{table="hadoop_export"} 6.0' in lines
    decided = Resolution("hadoop_export", Action.RELEASED, 2, 3, "meera", "a sale", (), 6, 700_000)
    ResolutionArchive(tmp_path / "quality" / "resolutions" / "hadoop_export").put(decided)
    assert 'quality_verdict_passed{table="hadoop_export"} 1.0' in scrape().splitlines(), "somebody has decided"


def test_checks_of_stores_are_told(tmp_path: Path, scrape: Scrape) -> None:
    put_verdict(tmp_path, CheckVerdict("verify", "rewards", False, ("why",), 5000))
    put_verdict(tmp_path, CheckVerdict("cleanup", "rewards", True, (), 6000))
    (tmp_path / "quality" / "verdicts" / "verify" / "players").mkdir()
    lines = scrape().splitlines()
    assert 'quality_check_passed{check="verify",store="rewards"} 0.0' in lines
    assert 'quality_check_passed{check="cleanup",store="rewards"} 1.0' in lines
    assert 'quality_check_timestamp_seconds{check="verify",store="rewards"} 5.0' in lines
    assert not any("players" in line for line in lines)


def test_what_cannot_be_read_is_left_out(tmp_path: Path, scrape: Scrape) -> None:
    beat(tmp_path, BEAT)
    (tmp_path / "heartbeats" / "ticks.json").write_text("{")
    verdicts = tmp_path / "quality" / "verdicts" / "hadoop_export"
    verdicts.mkdir(parents=True)
    (verdicts / "000-001.json").write_text("[]")
    told = scrape()
    assert 'spark_app_up{app="pos"} 1.0' in told
    assert "ticks" not in told
    assert "quality_verdict_passed{" not in told


def test_an_empty_run_directory_is_fine(scrape: Scrape) -> None:
    assert "# TYPE spark_app_up gauge" in scrape()


def test_exported_names_are_in_the_table_and_follow_the_rules(tmp_path: Path, scrape: Scrape) -> None:
    beat(tmp_path, BEAT)
    exported = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", scrape(), re.MULTILINE))
    assert exported == {metric.name for metric in platform_metrics()}
    for metric in platform_metrics():
        assert re.fullmatch(r"(spark_app|state_snapshot|quality)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_a_generation_that_is_not_live_is_told_from_the_live_one(tmp_path: Path, scrape: Scrape) -> None:
    beat(tmp_path, BEAT)
    write_heartbeat(RunLayout(tmp_path).heartbeat("pos-next"), replace(BEAT, state=AppState.STOPPED, generation=1))
    standby = Generation(2, GenerationState.STANDBY, {"rewards": "t"})
    JournalFile(tmp_path, "pos").write(first_journal(POS).updated(standby))
    lines = scrape().splitlines()
    assert {'spark_app_up{app="pos"} 1.0', 'spark_app_up{app="pos-next"} 0.0'} <= set(lines)
    assert {'spark_app_generation{app="pos"} 2.0', 'spark_app_generation{app="pos-next"} 1.0'} <= set(lines)
    assert len(set(samples(lines))) == len(samples(lines)), "Prometheus keeps one of two samples of the same name"


def test_pages_dashboards_and_rules_name_what_is_exported(tmp_path: Path, scrape: Scrape) -> None:
    beat(tmp_path, replace(BEAT, watermark_ms=1))
    put_verdict(tmp_path, CheckVerdict("verify", "prices", True, (), 6000))
    verdict = Verdict("hadoop_export", Status.PUBLISHED, 0, 1, 5, 500_000)
    VerdictArchive(tmp_path / "quality" / "verdicts" / "hadoop_export").put(verdict)
    commit = tmp_path / "delta" / "rewards" / "_delta_log" / f"{0:020}.json"
    commit.parent.mkdir(parents=True)
    commit.write_text('{"commitInfo":{"timestamp":7,"userMetadata":"{\\"changelog_offsets\\":{}}"}}')
    seen, rows = Scraped(scrape()), documented(PLATFORM)
    assert seen.unlike(rows) == {}
    assert seen.unmet(uses_of(rows)) == {}
    assert seen.undocumented(rows) == set()
