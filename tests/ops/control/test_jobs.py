"""Jobs of a toy program, and of threads: started, found, cancelled, ended with the control process; what may be one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer

from harness.waiting import eventually
from storekeeper.cli.entry import app
from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError, InvalidArgumentError, InvalidNameError
from storekeeper.generations.catalog import check_since
from storekeeper.ops.control import jobs as module
from storekeeper.ops.control.jobs import (
    ALLOWED,
    Job,
    Jobs,
    JobState,
    check_allowed,
)
from storekeeper.ops.control.problems import JobCancelledError, JobConflictError, UnknownJobError
from tests.ops.control.toys import WAIT_S, await_begin, await_end, began, let_end, toy

Test = Callable[..., None]


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Test:
    """A test whose jobs run in the event loop of the main thread, as in the control process."""

    @wraps(test)
    def run(*args: Any, **options: Any) -> None:
        async def scenario() -> None:
            try:
                await test(*args, **options)
            finally:
                while _MADE:
                    await _MADE.pop().end()

        asyncio.run(scenario())

    return run


_MADE: list[Jobs] = []


def made(root: Path) -> Jobs:
    _MADE.append(Jobs(root, dict(os.environ), clock=SystemClock(), command=toy))  # noqa: TID251 (handed on)
    return _MADE[-1]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "jobs"
    assert not _MADE


async def start(jobs: Jobs, file: Path, *more: str, name: str = "one") -> tuple[Job, bool]:
    return await jobs.start(name, ("verify", str(file), *more), "somebody")


async def begin(file: Path) -> int:
    return await asyncio.to_thread(await_begin, file)


async def end(pid: int) -> None:
    await asyncio.to_thread(await_end, pid)


def child_of(file: Path) -> int:
    return int(Path(f"{file}.child").read_text())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def over(job: Job) -> JobState:
    assert job.task is not None
    await asyncio.wait([job.task], timeout=WAIT_S)
    await asyncio.sleep(0)  # its end is noted in the next turn of the loop
    return job.state


@in_a_loop
async def test_a_job_runs_once_and_its_end_is_found(root: Path, tmp_path: Path) -> None:
    jobs, file = made(root), tmp_path / "one"
    job, is_new = await start(jobs, file)
    assert is_new
    await begin(file)
    assert (await start(jobs, file), job.state) == ((job, False), JobState.RUNNING)
    let_end(file)
    assert await over(job) is JobState.SUCCEEDED
    assert len(began(file)) == 1
    assert jobs.get("one") is job
    assert job.result() == {"rows": 3}
    assert job.log_from(0) == ("verify begins\nstorekeeper: it is done\n", 38)
    assert job.log_from(14)[0] == "storekeeper: it is done\n"
    assert job.output_end() == 'chatter\n{"rows": 3}\n'
    await end(child_of(file))  # no child of a job outlives it


@in_a_loop
async def test_a_job_that_is_over_runs_again(root: Path, tmp_path: Path) -> None:
    jobs, file = made(root), tmp_path / "one"
    let_end(file)
    job, _ = await start(jobs, file, "4")
    assert (await over(job), job.exit_code) == (JobState.FAILED, 4)
    again, is_new = await start(jobs, file)
    assert (is_new, await over(again), len(began(file))) == (True, JobState.SUCCEEDED, 2)


@in_a_loop
async def test_an_id_is_for_one_command_at_a_time(root: Path, tmp_path: Path) -> None:
    jobs = made(root)
    await start(jobs, tmp_path / "one")
    with pytest.raises(JobConflictError, match=r"job one runs with other arguments: verify .*/one"):
        await start(jobs, tmp_path / "other")
    with pytest.raises(InvalidNameError):
        await start(jobs, tmp_path / "one", name="../one")
    with pytest.raises(UnknownJobError, match="there is no job two"):
        jobs.get("two")


@in_a_loop
async def test_no_job_waits_for_another(root: Path, tmp_path: Path) -> None:
    """How many run at once is what the pool of the caller says."""
    jobs, names = made(root), [f"job-{number}" for number in range(5)]
    for name in names:
        await start(jobs, tmp_path / name, name=name)
    for name in names:
        await begin(tmp_path / name)
    assert [job.name for job in jobs.all()] == names[::-1]


@pytest.mark.parametrize("grumbling", [False, True], ids=["willing", "grumbling"])
@in_a_loop
async def test_a_cancelled_job_ends_with_its_children(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grumbling: bool
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.1 if grumbling else 60)
    jobs, file = made(root), tmp_path / "one"
    job, _ = await start(jobs, file, *["grumble"] * grumbling)
    pid = await begin(file)
    for reason in ("not today", "nor tomorrow"):
        assert jobs.cancel("one", reason).cancel_reason == "not today"
    assert await over(job) is JobState.CANCELLED
    await end(pid)
    await end(child_of(file))


@in_a_loop
async def test_a_job_that_is_cancelled_before_it_begins_is_over(root: Path, tmp_path: Path) -> None:
    jobs = made(root)
    job, _ = await start(jobs, tmp_path / "one")
    jobs.cancel("one")
    assert await over(job) is JobState.CANCELLED
    assert not began(tmp_path / "one")


@in_a_loop
async def test_a_cancelled_job_ends_before_it_begins_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.1)
    jobs, file = made(root), tmp_path / "one"
    job, _ = await start(jobs, file, "grumble")
    await begin(file)
    jobs.cancel("one")
    again, is_new = await start(jobs, file, "grumble")
    assert (is_new, job.state) == (True, JobState.CANCELLED)
    await asyncio.to_thread(eventually, lambda: len(began(file)) == 2, WAIT_S, "it begins again")
    assert again.state is JobState.RUNNING


@in_a_loop
async def test_the_end_of_all_jobs_leaves_nothing(root: Path, tmp_path: Path) -> None:
    jobs, files = made(root), [tmp_path / "one", tmp_path / "two"]
    for file in files:
        await start(jobs, file, name=file.name)
    pids = [await begin(file) for file in files]
    await jobs.end()
    for pid in pids:
        await end(pid)
    assert {job.state for job in jobs.all()} == {JobState.CANCELLED}


@in_a_loop
async def test_a_command_that_cannot_be_started_has_failed(root: Path, tmp_path: Path) -> None:
    jobs = made(root)
    job, _ = await start(jobs, tmp_path / "one")
    job.folder.rmdir()  # as if the disk were full
    assert (await over(job), job.exit_code) == (JobState.FAILED, 1)


def in_a_thread(
    answer: Callable[[], dict[str, Any]],
) -> Callable[[Sequence[str], threading.Event, Path], dict[str, Any]]:
    def run(words: Sequence[str], cancelled: threading.Event, log: Path) -> dict[str, Any]:
        log.write_text(f"{' '.join(words)}\n")
        return answer()

    return run


@in_a_loop
async def test_a_change_of_an_app_is_a_thread(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, Any]:
        raise ConfigurationError("there is no such app\nat all")

    def break_down() -> dict[str, Any]:
        return dict[str, dict[str, Any]]()["pid"]

    for answer, state, code, result, log in (
        (lambda: {"app": "pos"}, JobState.SUCCEEDED, 0, {"app": "pos"}, ""),
        (fail, JobState.FAILED, 78, None, "storekeeper: there is no such app\nstorekeeper: at all\n"),
        (break_down, JobState.FAILED, 1, None, "storekeeper: KeyError: 'pid'\n"),
    ):
        monkeypatch.setattr(module, "change_app_by_words", in_a_thread(answer))
        jobs = made(root)
        job, _ = await jobs.start("one", ("app", "stop", "pos"), "somebody")
        assert (await over(job), job.exit_code, job.result()) == (state, code, result)
        assert job.log_from(0)[0] == f"app stop pos\n{log}"


@in_a_loop
async def test_a_change_of_an_app_is_cancelled_at_its_next_step(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def wait(_: Sequence[str], cancelled: threading.Event, __: Path) -> dict[str, Any]:
        begun.set()
        assert cancelled.wait(WAIT_S)
        raise JobCancelledError("cancelled")

    monkeypatch.setattr(module, "change_app_by_words", wait)
    jobs = made(root)
    job, _ = await jobs.start("one", ("app", "stop", "pos"), "somebody")
    await asyncio.to_thread(begun.wait, WAIT_S)
    jobs.cancel("one", "not today")
    assert await over(job) is JobState.CANCELLED


@in_a_loop
async def test_old_jobs_are_forgotten(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    monkeypatch.setattr(module, "change_app_by_words", in_a_thread(dict))
    jobs = made(root)
    for number in range(6):
        job, _ = await jobs.start(f"job-{number}", ("app",), "somebody")
        await over(job)
    assert [job.name for job in jobs.all()] == ["job-5", "job-4", "job-3", "job-2"]
    assert names_in(root) == ["job-2", "job-3", "job-4", "job-5"]
    made(root)
    assert not names_in(root)


@pytest.mark.parametrize(
    "words",
    [
        "snapshot create rewards",
        "verify rewards",
        "check rewards",
        "generation seed pos --from 2026-01-31T00:00:00Z",
        "generation retire pos --delete",
        "erase rewards --run 20260131T120000000Z",
        "erase rewards --run 20260131T120000000Z --dry-run",
        "quarantine release 12-14 --by me --reason see:there",
    ],
)
def test_jobs_are_commands_about_stores_and_apps(words: str) -> None:
    check_allowed(words.split())


@pytest.mark.parametrize("since", ["2026-01-31T00:00:00+01:00", "2026-01-31 00:00:00.5Z", "20260131T00:00Z"])
def test_a_job_may_begin_at_any_time_that_its_command_takes(since: str) -> None:
    check_since(since)
    check_allowed(["generation", "seed", "pos", "--from", since])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "can't run as a job"),
        (["run", "pos"], "'run' can't run as a job"),
        (["down"], "can't run as a job"),
        (["token", "add", "me"], "can't run as a job"),
        (["plan", "--export", "/etc/x"], "can't run as a job"),
        (["tables", "--register", "--unity", "http://elsewhere", "--token-file", "/etc/x"], "can't run as a job"),
        (["--help"], "can't run as a job"),
        (["generation", "list", "pos"], "`generation` is followed by one of: handover, plan"),
        (["snapshot"], "`snapshot` is followed by one of"),
        (["snapshot", "--help", "create"], "`snapshot` is followed by one of"),
        (["verify", "rewards", "--output", "table"], "leave --output out"),
        (["verify", "rewards", "--output=table"], "leave --output out"),
        (["verify", "rewards", "-otable"], "leave --output out"),
        (["generation", "status", "os:environ"], "without a module"),
        (["app", "upgrade", "os:environ", "--dry-run"], "without a module"),
        (["generation", "plan", "--migration", "--from", "os:environ"], "without a module"),
        (["erase", "rewards", "4836051607"], "names no key"),
        (["erase", "rewards", "--keys-file", "/etc/x"], "names no key"),
        (["erase", "rewards", "--run", "1", "4836051607"], "names no key"),
        (["erase", "--keys-file=/etc/x", "--run", "1"], "names no key"),
        (["erase"], "names no key"),
        (["verify", "a\0b"], "without NUL"),
        (["verify", *["a"] * 300], "at most 200 arguments"),
    ],
)
def test_all_else_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_allowed(words)


def test_every_job_is_a_command_that_there_is() -> None:
    program = typer.main.get_command(app)
    for name, subcommands in ALLOWED.items():
        command = program.get_command(None, name)  # type: ignore[attr-defined]
        assert command is not None, name
        if subcommands:
            assert subcommands <= set(command.list_commands(None))


def test_no_job_takes_a_path_or_an_address() -> None:
    """An operator would read files of this machine by it, or have their content sent elsewhere."""
    program = typer.main.get_command(app)
    taken: list[str] = []
    for name, subcommands in ALLOWED.items():
        if name == "erase":
            continue  # it takes no option but --run and --dry-run, see above
        command = program.get_command(None, name)  # type: ignore[attr-defined]
        for each in [command] if not subcommands else map(partial(command.get_command, None), subcommands):
            taken += [f"{name} {each.name} {given}" for given in _reaching_out(each)]
    assert taken == []
    assert _reaching_out(program.get_command(None, "tables")) == ["token_file", "unity"]  # type: ignore[attr-defined]


def _reaching_out(command: Any) -> list[str]:
    """The parameters of a command that name a path or an address."""
    paths = {name for name, kind in get_type_hints(command.callback).items() if "Path" in str(kind)}
    return sorted(paths | {given.name for given in command.params if given.metavar == "URL"})
