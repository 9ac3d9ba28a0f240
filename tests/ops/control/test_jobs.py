"""Jobs of a toy program: started once, found again, cancelled, timed out, lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.waiting import eventually
from storekeeper.clock import SystemClock
from storekeeper.errors import InvalidNameError
from storekeeper.ops import job_process
from storekeeper.ops.control.jobs import KEPT_MS, JobConflictError, Jobs, UnknownJobError
from storekeeper.ops.job_files import JOB_MARKER, JobFolder, JobRequest, JobState, end_job_processes
from storekeeper.ops.job_process import LOST, write_end
from tests.ops.control.toys import WAIT_S, await_begin, await_end, began, let_end, toy

CLOCK = SystemClock()


_MADE: list[Jobs] = []


def made(root: Path, at_once: int = 2) -> Jobs:
    _MADE.append(Jobs(root, dict(os.environ), at_once=at_once, clock=CLOCK, command=toy))  # noqa: TID251 (handed on)
    return _MADE[-1]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "jobs"
    end_job_processes(tmp_path / "jobs")
    while _MADE:
        for process in _MADE.pop()._processes.values():
            process.wait(WAIT_S)


def request(file: Path, *more: str, timeout_s: float = 600) -> JobRequest:
    return JobRequest(("verify", str(file), *more), timeout_s, "somebody", CLOCK.now_ms())


def await_state(job: JobFolder, state: JobState) -> None:
    eventually(lambda: job.state() is state, WAIT_S, f"the job is {state}")


def await_advance(jobs: Jobs, file: Path) -> None:
    def advanced() -> list[int]:
        jobs.advance()
        return began(file)

    eventually(advanced, WAIT_S, "the job begins that waited")


def test_a_job_runs_once_and_its_end_is_found(root: Path, tmp_path: Path) -> None:
    jobs, file = made(root), tmp_path / "one"
    job, new = jobs.put("one", request(file))
    assert new
    await_begin(file)
    again, new = jobs.put("one", request(file))
    assert (again.path, new, again.state()) == (job.path, False, JobState.RUNNING)
    let_end(file)
    await_state(job, JobState.SUCCEEDED)
    jobs.put("one", request(file))
    jobs.advance()
    assert len(began(file)) == 1
    assert job.result() == {"rows": 3}
    assert job.log_from(0) == ("verify begins\nstorekeeper: it is done\n", 38)
    assert job.log_from(14)[0] == "storekeeper: it is done\n"
    assert job.output_end() == 'chatter\n{"rows": 3}\n'
    await_end(int(Path(f"{file}.child").read_text()))  # no child of a job outlives it


def test_the_exit_code_of_a_failed_job_is_kept(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "one"
    let_end(file)
    job, _ = made(root).put("one", request(file, "4"))
    await_state(job, JobState.FAILED)
    assert job.ended is not None
    assert job.ended["exit_code"] == 4


def test_an_id_is_for_one_request(root: Path, tmp_path: Path) -> None:
    jobs = made(root)
    jobs.put("one", request(tmp_path / "one"))
    with pytest.raises(JobConflictError, match=r"job one has other arguments: verify .*/one"):
        jobs.put("one", request(tmp_path / "other"))
    with pytest.raises(InvalidNameError):
        jobs.put("../one", request(tmp_path / "one"))
    with pytest.raises(UnknownJobError, match="there is no job two"):
        jobs.get("two")


def test_a_collected_job_can_be_asked_for_again(root: Path, tmp_path: Path) -> None:
    jobs, file = made(root), tmp_path / "one"
    job, _ = jobs.put("one", request(file))
    await_begin(file)
    with pytest.raises(JobConflictError, match="job one is running"):
        jobs.forget("one")
    let_end(file)
    await_state(job, JobState.SUCCEEDED)
    jobs.forget("one")
    with pytest.raises(UnknownJobError):
        jobs.get("one")
    job, new = jobs.put("one", request(file))
    assert new
    await_state(job, JobState.SUCCEEDED)
    assert len(began(file)) == 2


def test_others_wait_until_there_is_room(root: Path, tmp_path: Path) -> None:
    jobs = made(root, at_once=1)
    first, second, third = (jobs.put(name, request(tmp_path / name))[0] for name in ("first", "second", "third"))
    await_begin(tmp_path / "first")
    jobs.advance()
    assert (second.state(), third.state()) == (JobState.QUEUED, JobState.QUEUED)
    jobs.cancel("second")
    assert second.state() is JobState.CANCELLED
    let_end(tmp_path / "first")
    await_state(first, JobState.SUCCEEDED)
    await_advance(jobs, tmp_path / "third")
    assert not began(tmp_path / "second")


def test_a_change_of_an_app_does_not_wait(root: Path, tmp_path: Path) -> None:
    jobs = made(root, at_once=1)
    jobs.put("first", request(tmp_path / "first"))
    await_begin(tmp_path / "first")
    jobs.put("stop", JobRequest(("app", str(tmp_path / "stop")), 600, "somebody", CLOCK.now_ms()))
    await_begin(tmp_path / "stop")
    assert jobs.put("second", request(tmp_path / "second"))[0].state() is JobState.QUEUED


def test_a_command_with_fewer_running_jobs_comes_first(root: Path, tmp_path: Path) -> None:
    jobs = made(root, at_once=2)
    many = [jobs.put(name, request(tmp_path / name))[0] for name in ("first", "second", "third")]
    other = jobs.put("other", JobRequest(("snapshot", str(tmp_path / "other")), 600, "somebody", CLOCK.now_ms()))[0]
    await_begin(tmp_path / "first")
    let_end(tmp_path / "first")
    await_state(many[0], JobState.SUCCEEDED)
    await_advance(jobs, tmp_path / "other")
    assert (many[2].state(), other.state()) == (JobState.QUEUED, JobState.RUNNING)


@pytest.mark.parametrize("grumbling", [False, True], ids=["willing", "grumbling"])
def test_a_cancelled_job_ends_with_its_children(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grumbling: bool
) -> None:
    patience = tmp_path / "impatient.py"
    patience.write_text(
        Path(job_process.__file__)
        .read_text()
        .replace("GRACE_S = 20.0", "GRACE_S = 0.1")
        .replace("Path(__file__)", f"Path({job_process.__file__!r})")
    )
    monkeypatch.setattr(job_process, "__file__", str(patience))
    jobs, file = made(root), tmp_path / "one"
    job, _ = jobs.put("one", request(file, *["grumble"] * grumbling))
    pid = await_begin(file)
    jobs.cancel("one")
    await_state(job, JobState.CANCELLED)
    await_end(pid)
    await_end(int(Path(f"{file}.child").read_text()))


def test_a_job_that_takes_too_long_is_ended(root: Path, tmp_path: Path) -> None:
    job, _ = made(root).put("one", request(tmp_path / "one", timeout_s=0.5))
    await_state(job, JobState.TIMED_OUT)


def test_another_one_finds_running_jobs_and_starts_queued_ones(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    before = made(root, at_once=1)
    before.put("first", request(first))
    before.put("second", request(second))
    await_begin(first)
    after = made(root, at_once=1)
    assert after.put("first", request(first))[1] is False
    let_end(first)
    await_state(after.get("first"), JobState.SUCCEEDED)
    await_advance(after, second)
    assert len(began(first)) == 1


def test_another_one_starts_queued_jobs_in_the_order_in_which_they_were_asked_for(root: Path, tmp_path: Path) -> None:
    names = ["first", *(f"queued-{number}" for number in (3, 1, 4, 0, 5, 2))]
    before = made(root, at_once=1)
    for name in names:
        before.put(name, request(tmp_path / name))
    after = made(root, at_once=1)
    for position, name in enumerate(names):
        await_advance(after, tmp_path / name)
        assert not any(began(tmp_path / later) for later in names[position + 1 :])
        let_end(tmp_path / name)
        await_state(after.get(name), JobState.SUCCEEDED)


def test_a_killed_job_is_lost_with_all_of_its_processes(root: Path, tmp_path: Path) -> None:
    jobs, file = made(root), tmp_path / "one"
    job, _ = jobs.put("one", request(file))
    pid = await_begin(file)
    assert job.started is not None
    psutil.Process(job.started["pid"]).kill()
    await_state(job, JobState.LOST)
    # The program must not go on without its process: nobody would find it again.
    await_end(pid)
    await_end(int(Path(f"{file}.child").read_text()))
    jobs.put("one", request(file))
    assert len(began(file)) == 1, "a lost job is started again only after somebody has collected it"


def test_a_job_is_never_started_twice(root: Path, tmp_path: Path) -> None:
    """Also if two starters think that they must: each process asks the folder."""
    file = tmp_path / "one"
    root.mkdir()
    assert JobFolder.made(root / "one", request(file))
    command = [sys.executable, job_process.__file__, str(root / "one"), "60", *toy("verify", str(file))]
    environment = {**os.environ, JOB_MARKER: str(root / "one")}  # noqa: TID251 (handed on to a child)
    started = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(4)]
    await_begin(file)
    let_end(file)
    for process in started:
        assert process.wait(WAIT_S) == 0
    assert len(began(file)) == 1
    assert subprocess.run(command, env=environment, check=False, timeout=WAIT_S).returncode == 0
    assert len(began(file)) == 1


def test_of_two_callers_at_once_one_makes_the_job(root: Path, tmp_path: Path) -> None:
    root.mkdir()
    made_by: list[bool] = []

    def make() -> None:
        made_by.append(JobFolder.made(root / "one", request(tmp_path / "one")))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made_by) == [False] * 7 + [True]
    assert [path.name for path in root.iterdir()] == ["one"]


@pytest.fixture
def synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The names of what was written to the disk for job `one`, each with what was to be seen of the job by then."""
    found: list[tuple[str, list[str]]] = []

    def sync(descriptor: int) -> None:
        seen = [path.name for path in (root / "one").glob("*") if path.suffix != ".new"]
        found.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, seen))

    monkeypatch.setattr(os, "fsync", sync)
    return found


def test_a_job_that_is_seen_is_on_disk(root: Path, tmp_path: Path, synced: list[tuple[str, list[str]]]) -> None:
    root.mkdir()
    assert JobFolder.made(root / "one", request(tmp_path / "one"))
    (file, seen), (folder, still_unseen) = synced
    assert file.startswith(".job.")
    assert folder.startswith(".one.")
    assert seen == still_unseen == []


def test_an_end_that_is_seen_is_on_disk(root: Path, synced: list[tuple[str, list[str]]]) -> None:
    (root / "one").mkdir(parents=True)
    write_end(root / "one", LOST, None)
    assert synced == [(f"ended.{os.getpid()}.new", []), ("one", ["ended"])]


@pytest.mark.parametrize("content", [b"", bytes(40)], ids=["empty", "zeros"])
@pytest.mark.parametrize("name", ["started", "ended"])
def test_a_job_is_lost_if_a_file_is_damaged_that_says_how_far_it_got(
    root: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    assert JobFolder.made(root / "one", request(tmp_path / "one"))
    (root / "one" / "started").write_text('{"pid": 0, "started_at_ms": 1}')
    (root / "one" / name).write_bytes(content)
    jobs = made(root)
    assert jobs.get("one").state() is JobState.LOST
    jobs.forget("one")
    assert not list(root.iterdir())


def test_a_job_is_set_aside_if_its_request_is_damaged(root: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert JobFolder.made(root / "one", request(tmp_path / "one"))
        (root / "one" / "job").write_bytes(b"")
        jobs = made(root)
        assert jobs.all() == []
        assert [path.name for path in root.iterdir()] == [".one.damaged"]
    let_end(tmp_path / "one")
    job, new = jobs.put("one", request(tmp_path / "one"))
    assert new
    await_state(job, JobState.SUCCEEDED)


def test_old_jobs_are_forgotten(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "one"
    let_end(file)
    jobs = made(root)
    job, _ = jobs.put("one", request(file))
    await_state(job, JobState.SUCCEEDED)
    jobs.forget_old()
    assert job.path.exists()
    ended = job.path / "ended"
    assert job.ended is not None
    ended.write_text(f'{{"why": "ended", "exit_code": 0, "ended_at_ms": {job.ended["ended_at_ms"] - KEPT_MS - 1}}}')
    jobs.forget_old()
    assert not list(root.iterdir())
