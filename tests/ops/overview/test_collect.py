"""A look at a run directory and at nodes that are away."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.heartbeat import write_heartbeat
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import Generation, GenerationState, JournalFile, Transfer, TransferPhase
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.collect import Nodes, collect
from storekeeper.ops.overview.model import Overview
from storekeeper.quality.resolution import Action, Resolution, ResolutionArchive
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from tests.client.fake_node import answers, fake_node
from tests.ops.overview.made_up import BEAT, NOW_MS


def overview(folder: Path, address: str = "http://127.0.0.1:1") -> Overview:
    def client() -> StateClient:
        return StateClient([address], limits=ClientLimits(timeout_s=0.3))

    return collect(RunLayout(folder), ManualClock(NOW_MS), nodes=Nodes(client))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "heartbeats").mkdir()
    write_heartbeat(tmp_path / "heartbeats/pos.json", BEAT)
    (tmp_path / "heartbeats/torn.json").write_text("{")
    VerdictArchive(tmp_path / "quality/verdicts/hadoop_export").put(
        Verdict("hadoop_export", Status.PUBLISHED, 0, 3, 10, NOW_MS - 60_000)
    )
    return tmp_path


def test_what_can_be_read_is_seen_while_no_node_answers(run_dir: Path) -> None:
    seen = overview(run_dir)
    assert [app.name for app in seen.apps] == ["pos"]
    assert [(one.verdict.table, one.outcome) for one in seen.verdicts] == [("hadoop_export", "published")]
    assert seen.stores == ()
    assert seen.unreachable is not None
    assert "127.0.0.1:1" in seen.unreachable


def test_an_empty_run_directory_is_no_error(tmp_path: Path) -> None:
    seen = overview(tmp_path)
    assert (seen.apps, seen.verdicts) == ([], [])


def test_a_node_that_answers_nonsense_is_said(run_dir: Path) -> None:
    with fake_node(answers()) as node:
        seen = overview(run_dir, node.address)
    assert [app.name for app in seen.apps] == ["pos"]


def test_a_generation_that_was_discarded_is_not_seen(run_dir: Path) -> None:
    journal = first_journal(POS)
    write_heartbeat(run_dir / "heartbeats/pos-next.json", BEAT)
    JournalFile(run_dir, "pos").write(journal)
    assert [app.name for app in overview(run_dir).apps] == ["pos"]
    there = Generation(2, GenerationState.STANDBY, {"rewards": "t"})
    JournalFile(run_dir, "pos").write(journal.updated(there))
    assert [app.name for app in overview(run_dir).apps] == ["pos", "pos-next"]


def test_which_generation_is_live_and_how_far_a_change_is_are_seen(run_dir: Path) -> None:
    def seen() -> list[tuple[str, str, str]]:
        return [(app.name, app.role, app.change) for app in overview(run_dir).apps]

    journal = first_journal(POS)
    assert seen() == [("pos", "", "")], "it has never changed"
    made = Generation(2, GenerationState.SEEDED, {"rewards": "t"})
    JournalFile(run_dir, "pos").write(journal.updated(made))
    assert seen() == [("pos", "live", "generation 2 is seeded")], "it has no process yet"
    write_heartbeat(run_dir / "heartbeats/pos-next.json", BEAT)
    change = "generation 1 hands over to generation 2 (waiting)"
    transfer = Transfer(1, 2, TransferPhase.WAITING)
    JournalFile(run_dir, "pos").write(journal.updated(made, transfer=transfer))
    assert seen() == [("pos", "live", change), ("pos-next", "candidate", change)]
    there = Generation(2, GenerationState.STANDBY, {"rewards": "t"})
    JournalFile(run_dir, "pos").write(journal.updated(there))
    assert seen() == [("pos", "live", ""), ("pos-next", "standby", "")]
    (run_dir / "generations/pos.json").write_text("{")
    assert seen()[0] == ("pos", "", ""), "a damaged journal hides nothing else"


def test_what_was_decided_on_a_quarantined_batch_is_seen(run_dir: Path) -> None:
    VerdictArchive(run_dir / "quality/verdicts/hadoop_export").put(
        Verdict("hadoop_export", Status.QUARANTINED, 4, 5, 10, NOW_MS)
    )
    (seen,) = overview(run_dir).verdicts
    assert (seen.outcome, seen.is_open) == ("quarantined", True)
    ResolutionArchive(run_dir / "quality/resolutions/hadoop_export").put(
        Resolution("hadoop_export", Action.DISCARDED, 4, 5, "meera", "test data", (), 10, NOW_MS)
    )
    (seen,) = overview(run_dir).verdicts
    assert (seen.outcome, seen.is_open) == ("discarded", False)
