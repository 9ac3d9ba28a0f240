from __future__ import annotations

from pathlib import Path

from deploy.control.keeper import keeper_of, watched_programs
from deploy.control.settings import OperationsSettings
from deploy.control.watch import AppWatcher, Watched
from harness.waiting import eventually
from spark_apps.apps.pos import POS
from spark_apps.apps.ticks import TICKS
from spark_apps.generations.catalog import first_journal
from spark_apps.generations.journal import JournalFile
from spark_apps.generations.steps import planned, retired, started
from spark_apps.registry import ON_DEMAND_APPS, POS_APPS
from spark_apps.runtime.heartbeat import read_heartbeat
from state.clock import SystemClock
from tests.deploy.control.supervised import Supervised

SILENT_MS = 3_000
QUICK = {"watch_stale_s": 2, "watch_start_s": 2}


def look(supervised: Supervised, **settings: object) -> Watched:
    """What `storekeeper app watch` does."""
    made = OperationsSettings(run_dir=supervised.run_dir, **settings)  # type: ignore[arg-type]
    keeper = keeper_of(made)
    programs = watched_programs(keeper.names(), made.run_dir)
    return AppWatcher(keeper, made, SystemClock()).look(programs)


def await_silence(supervised: Supervised, app: str) -> None:
    """Returns once the process of an app that runs has said nothing for longer than it may."""

    def silent() -> bool:
        beat, process = read_heartbeat(supervised.run_dir / "heartbeats" / f"{app}.json"), supervised.rpc.process(app)
        return beat is not None and beat.pid == process.pid and beat.age_ms(SystemClock().now_ms()) > SILENT_MS

    eventually(silent, 30, f"{app} is silent")


def test_healthy_and_stopped_apps_are_left_alone_and_a_silent_one_is_restarted_then_reported(
    supervised: Supervised,
) -> None:
    supervised.behave("pos", "silent")
    for app in (*POS_APPS, "shared_driver"):
        supervised.rpc.start(app)
        supervised.await_state(app, "RUNNING")
    supervised.rpc.stop("hadoop_export")
    supervised.await_state("hadoop_export", "STOPPED")
    before = {app: supervised.rpc.process(app).pid for app in POS_APPS}
    await_silence(supervised, "pos")
    found = look(supervised, **QUICK)
    assert found.alerts == []
    looked = found.actions
    assert [looked[app]["action"] for app in POS_APPS] == ["restart", "none"]
    assert looked["hadoop_export"]["reason"] == "stopped"
    assert looked["shared_driver"] == {"action": "none", "reason": "running"}
    after = {app: supervised.rpc.process(app).pid for app in POS_APPS}
    assert after["pos"] not in {0, before["pos"]}
    assert after == {**before, "pos": after["pos"]}
    await_silence(supervised, "pos")
    (alert,) = look(supervised, watch_restarts=1, **QUICK).alerts
    assert "pos needs attention: the last heartbeat is" in alert
    assert "1 restarts did not help" in alert
    assert "toy pos is in the mood to silent" in alert
    assert supervised.rpc.process("pos").pid == after["pos"]


def test_an_app_that_ended_by_itself_is_started_and_a_misconfigured_one_reported(
    supervised: Supervised,
) -> None:
    supervised.behave("hadoop_export", "crash")
    supervised.behave("pos", "misconfigured")
    for app in ("hadoop_export", "pos"):
        supervised.rpc.start(app)
        supervised.await_state(app, "EXITED")
    supervised.behave("hadoop_export", "run")
    (alert,) = look(supervised).alerts
    assert "pos needs attention: ended because of its configuration (topic pos is missing: create it)" in alert
    assert supervised.rpc.process("hadoop_export").state == "RUNNING"
    assert supervised.rpc.process("pos").state == "EXITED"


def test_the_smaller_apps_and_a_generation_beside_the_live_one_are_looked_after_too(
    supervised: Supervised,
) -> None:
    journal = planned(first_journal(POS), POS, ())
    JournalFile(supervised.run_dir, "pos").write(started(journal, 2))
    supervised.behave("shared_driver", "crash")
    supervised.rpc.start("shared_driver")
    supervised.await_state("shared_driver", "EXITED")
    supervised.behave("shared_driver", "run")
    found = look(supervised)
    assert found.alerts == []
    looked = found.actions
    assert looked["shared_driver"]["reason"].startswith("ended with exit code 3")
    # Nobody has started them since the supervisor began.
    assert looked["pos-next"] == {"action": "restart", "reason": "not started since the supervisor began"}
    for program in (*POS_APPS, "pos-next", "shared_driver"):
        supervised.await_state(program, "RUNNING")


def test_what_must_run_is_told_by_the_supervisor_and_the_journals(tmp_path: Path) -> None:
    assert list(watched_programs((*POS_APPS, "shared_driver"), tmp_path)) == [*POS_APPS, "shared_driver"]
    assert list(watched_programs(("pos",), tmp_path)) == ["pos"], "a platform that runs one app alone"
    assert watched_programs(("shared_driver",), tmp_path)["shared_driver"] == tuple(ON_DEMAND_APPS)
    JournalFile(tmp_path, "ticks").write(started(planned(first_journal(TICKS), TICKS, ()), 2))
    assert watched_programs(("shared_driver",), tmp_path)["ticks-next"] == ("ticks-next",)
    file, journal = JournalFile(tmp_path, "pos"), planned(first_journal(POS), POS, ())
    file.write(journal)
    assert "pos-next" not in watched_programs(POS_APPS, tmp_path), "it has no seed yet"
    file.write(started(journal, 2))
    assert watched_programs(POS_APPS, tmp_path)["pos-next"] == ("pos-next",)
    file.write(retired(started(journal, 2), 2))
    assert "pos-next" not in watched_programs((), tmp_path)
