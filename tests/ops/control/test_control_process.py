"""A real process of the control API, and jobs of a toy program beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.ops.control import server
from storekeeper.ops.control.jobs import Jobs
from storekeeper.ops.control.server import run_control
from storekeeper.ops.errors import AlreadyRunningError
from storekeeper.ops.job_files import end_job_processes
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import exclusive
from storekeeper.ops.settings import PlatformSettings
from tests.ops.control.toys import ControlProcess, await_begin, await_end, began, let_end


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    running = ControlProcess(tmp_path / "run")
    running.start()
    yield running
    if running.process is not None and running.process.poll() is None:
        running.kill()
    end_job_processes(tmp_path / "run" / "jobs")


def test_a_job_outlives_a_killed_control_process_and_is_not_doubled(control: ControlProcess, tmp_path: Path) -> None:
    file, queued = tmp_path / "one", [tmp_path / f"queued-{number}" for number in range(5)]
    assert control.put("one", "verify", str(file))["state"] in {"queued", "running"}
    await_begin(file)
    for number, one in enumerate(queued):
        control.put(f"queued-{number}", "verify", str(one))
    control.kill()
    control.start()
    # The caller tries again, as a task of Airflow does whose worker was killed.
    assert control.put("one", "verify", str(file))["state"] == "running"
    let_end(file)
    found = control.await_state("one", "succeeded")
    assert (found["result"], found["exit_code"]) == ({"rows": 3}, 0)
    for number, one in enumerate(queued):
        let_end(one)
        control.await_state(f"queued-{number}", "succeeded")
        assert len(began(one)) == 1
    assert len(began(file)) == 1


@pytest.mark.long("test_jobs.py")
def test_a_job_that_dies_with_the_control_process_is_reported_as_lost(control: ControlProcess, tmp_path: Path) -> None:
    file = tmp_path / "one"
    control.put("one", "verify", str(file))
    pid = await_begin(file)
    control.kill()
    end_job_processes(control.run_dir / "jobs")  # as a container or a machine that stops
    await_end(pid)
    control.start()
    assert control.put("one", "verify", str(file))["state"] == "lost"
    assert control.ask("DELETE", "/jobs/one").status_code == 204
    assert control.ask("GET", "/jobs/one").status_code == 404
    let_end(file)
    control.put("one", "verify", str(file))
    control.await_state("one", "succeeded")
    assert len(began(file)) == 2


@pytest.mark.long("test_jobs.py")
def test_a_stopped_control_process_leaves_its_jobs_running(control: ControlProcess, tmp_path: Path) -> None:
    file = tmp_path / "one"
    control.put("one", "verify", str(file))
    await_begin(file)
    assert control.stop() == 0
    control.start()
    assert control.ask("POST", "/jobs/one/cancel").json()["state"] in {"running", "cancelled"}
    control.await_state("one", "cancelled")


def test_jobs_go_on_after_a_turn_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    again = threading.Event()

    def fail() -> None:
        turns.append(1)
        if len(turns) == 3:
            again.set()
        raise ValueError("no JSON")

    jobs = Jobs(tmp_path / "jobs", {}, at_once=1, clock=SystemClock())
    monkeypatch.setattr(Jobs, "advance", lambda _: fail())
    monkeypatch.setattr(server, "_TICK_S", 0.01)

    async def serve() -> None:
        async with server._working(jobs, PlatformSettings.load(run_dir=tmp_path), SystemClock()):
            assert await asyncio.to_thread(again.wait, 30)

    asyncio.run(serve())


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_platforms_own_airflow_is_cleaned_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    cleaned: list[str] = []
    twice = threading.Event()

    def remove_old_logs(layout: RunLayout, _: int) -> int:
        cleaned.append(f"logs of {layout.root}")
        return 0

    async def remove_old_runs(_layout: RunLayout, environment: Mapping[str, str], _: int) -> str | None:
        cleaned.append(
            environment.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"runs of {environment['STOREKEEPER_RUN_DIR']}")
        )
        if len(cleaned) == 4:
            twice.set()
        raise TimeoutError

    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "another database")
    for name, value in (("_CLEAN_AFTER_S", 0), ("_CLEAN_EVERY_S", 0.01)):
        monkeypatch.setattr(server, name, value)
    for function in (remove_old_logs, remove_old_runs):
        monkeypatch.setattr(server, function.__name__, function)
    (tmp_path / "airflow").mkdir()
    if is_ours:
        (tmp_path / "airflow" / "airflow.db").touch()
    jobs = Jobs(tmp_path / "jobs", {}, at_once=1, clock=SystemClock())

    async def serve() -> None:
        async with server._working(jobs, PlatformSettings.load(run_dir=tmp_path), SystemClock()):
            assert await asyncio.to_thread(twice.wait, 30 if is_ours else 0.2) is is_ours

    asyncio.run(serve())
    assert cleaned[:4] == [f"logs of {tmp_path}", f"runs of {tmp_path}"] * (2 if is_ours else 0)


def test_there_is_one_control_process_for_a_run_directory(tmp_path: Path) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path)
    with (
        exclusive(RunLayout(tmp_path).jobs / "lock", "control"),
        pytest.raises(AlreadyRunningError, match="`storekeeper control`"),
    ):
        run_control(settings, "127.0.0.1", 1, SystemClock())


def test_beyond_loopback_it_needs_what_a_node_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="beyond loopback, needs TLS"):
        run_control(PlatformSettings.load(run_dir=tmp_path), "192.0.2.1", 1, SystemClock())
