"""The job operator against a real control API with toy jobs; the trigger runs here, as the triggerer runs it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import Context
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.triggers.base import TriggerEvent

from storekeeper.ops.airflow_home import airflow_options
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import OwnPlatformSettings
from storekeeper_provider import operators
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import FIRST_PAUSE_S, JobTrigger, StorekeeperJobOperator, job_id, reasons_in
from storekeeper_provider.sensors import progress_of
from tests.ops.control.toys import ControlProcess, await_begin, await_end, began, let_end

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("connection")]


def context(**more: Any) -> Context:
    instance = {"dag_id": "a", "run_id": "manual__2026-01-31T00:00:00+00:00", "task_id": "job", "map_index": -1, **more}
    return cast("Context", {"ti": SimpleNamespace(**instance)})


def fired(trigger: JobTrigger) -> Any:
    async def first() -> TriggerEvent:
        return await anext(aiter(trigger.run()))

    return asyncio.run(first()).payload


def run(operator: StorekeeperJobOperator, here: Context) -> dict[str, Any]:
    """What a task does in Airflow: it is deferred, and goes on with the event."""
    try:
        return operator.execute(here)
    except TaskDeferred as deferred:
        return resumed(operator, here, deferred)


def resumed(operator: StorekeeperJobOperator, here: Context, deferred: TaskDeferred) -> dict[str, Any]:
    """What a deferred task does once its trigger has fired."""
    return operator.on_over(here, fired(cast("JobTrigger", deferred.trigger)))


def operator(file: Path, *more: str, **options: Any) -> StorekeeperJobOperator:
    return StorekeeperJobOperator(task_id="job", arguments=["verify", "", str(file), *more], **options)


def test_the_last_line_of_output_is_the_result(tmp_path: Path) -> None:
    here = context(run_id=str(tmp_path))
    let_end(tmp_path / "one")
    assert run(operator(tmp_path / "one"), here) == {"rows": 3}
    assert run(operator(tmp_path / "one"), here) == {"rows": 3}, "a cleared task runs again"
    assert len(began(tmp_path / "one")) == 2


def test_a_try_after_a_killed_worker_finds_the_job(tmp_path: Path) -> None:
    here = context(run_id=str(tmp_path))
    with pytest.raises(TaskDeferred):
        operator(tmp_path / "one").execute(here)
    with pytest.raises(TaskDeferred) as deferred:
        operator(tmp_path / "one").execute(here)
    await_begin(tmp_path / "one")
    let_end(tmp_path / "one")
    assert resumed(operator(tmp_path / "one"), here, deferred.value) == {"rows": 3}
    assert len(began(tmp_path / "one")) == 1


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("75", AirflowException, r"exit code 75: it is done\nThe end of its log:\nverify begins"),
        ("4", AirflowFailException, "quarantined: it is done"),
        ("5", AirflowFailException, "refused: .*: it is done"),
        ("78", AirflowFailException, "must be corrected first: it is done"),
    ],
)
def test_an_exit_code_says_whether_a_retry_can_help(
    tmp_path: Path, code: str, error: type[AirflowException], message: str
) -> None:
    here = context(run_id=str(tmp_path))
    let_end(tmp_path / "one")
    with pytest.raises(error, match=message) as caught:
        run(operator(tmp_path / "one", code, finding="quarantined"), here)
    assert type(caught.value) is error
    with pytest.raises(error):
        run(operator(tmp_path / "one", code, finding="quarantined"), here)
    assert len(began(tmp_path / "one")) == 2, "a retry of a failed job runs it again"


def test_the_reason_is_at_the_end_of_a_log_however_long_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = "WARN one of many\n" * 200_000 + "storekeeper: no broker answers\n"

    def job(_: StorekeeperHook, name: str, log_from: int | None = None) -> dict[str, Any]:
        begin = len(log) - 1000 if log_from is None else log_from
        part = {"log": log[begin : begin + 65_536], "log_position": min(len(log), begin + 65_536)}
        return {"id": name, "state": "failed", "exit_code": 75, "result": None, **part}

    monkeypatch.setattr(StorekeeperHook, "job", job)
    with pytest.raises(AirflowException, match=r"exit code 75: no broker answers"):
        operator(tmp_path / "one").on_over(context(), {"job": "a"})


def test_a_lost_job_is_left_to_a_retry_which_runs_it_again(tmp_path: Path, control: ControlProcess) -> None:
    here = context(run_id=str(tmp_path))
    with pytest.raises(TaskDeferred) as deferred:
        operator(tmp_path / "one").execute(here)
    await_begin(tmp_path / "one")
    control.kill()
    control.start()
    event = fired(cast("JobTrigger", deferred.value.trigger))
    with pytest.raises(AirflowException, match="the job was lost") as caught:
        operator(tmp_path / "one").on_over(here, event)
    assert not isinstance(caught.value, AirflowFailException)
    let_end(tmp_path / "one")
    assert run(operator(tmp_path / "one"), here) == {"rows": 3}


def test_airflow_limits_the_wait_and_a_job_that_takes_longer_is_cancelled(tmp_path: Path) -> None:
    here, limited = context(run_id=str(tmp_path)), operator(tmp_path / "one", execution_timeout=timedelta(minutes=5))
    with pytest.raises(TaskDeferred) as deferred:
        limited.execute(here)
    assert deferred.value.timeout == timedelta(minutes=5)
    pid = await_begin(tmp_path / "one")
    with pytest.raises(AirflowException, match=r"longer than its execution_timeout, 0:05:00") as caught:
        limited.resume_execution(TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_TIMEOUT}, here)
    assert not isinstance(caught.value, AirflowFailException)
    await_end(pid)


def test_ending_a_task_cancels_its_job_and_a_cleared_one_runs_again(tmp_path: Path) -> None:
    here = context(run_id=str(tmp_path))
    with pytest.raises(TaskDeferred) as deferred:
        operator(tmp_path / "one").execute(here)
    pid = await_begin(tmp_path / "one")
    trigger = cast("JobTrigger", deferred.value.trigger)
    asyncio.run(trigger.on_kill())
    await_end(pid)
    assert fired(trigger) == {"job": job_id(here)}
    let_end(tmp_path / "one")
    assert run(operator(tmp_path / "one"), here) == {"rows": 3}


@pytest.mark.parametrize("is_late", [False, True], ids=["before the next try", "after the next try has begun"])
def test_a_task_that_is_cleared_while_its_job_runs_runs_again(tmp_path: Path, *, is_late: bool) -> None:
    """Airflow starts the next try at once. The old trigger cancels the job, which may be that of both."""
    here, file = context(run_id=str(tmp_path)), tmp_path / "one"
    with pytest.raises(TaskDeferred) as cleared:
        operator(file).execute(here)
    await_begin(file)
    old = cast("JobTrigger", cleared.value.trigger)
    if not is_late:
        asyncio.run(old.on_kill())
    with pytest.raises(TaskDeferred) as waits:
        operator(file).execute(here)
    if is_late:
        asyncio.run(old.on_kill())
        event = fired(cast("JobTrigger", waits.value.trigger))
        with pytest.raises(AirflowException, match="an earlier try has cancelled the job") as caught:
            operator(file).on_over(here, event)
        assert not isinstance(caught.value, AirflowFailException), "a retry runs it again"
    let_end(file)
    assert run(operator(file), here) == {"rows": 3}
    assert len(began(file)) == 2


def test_a_cancelled_job_fails_its_task_for_good(tmp_path: Path) -> None:
    here = context(run_id=str(tmp_path))
    with pytest.raises(TaskDeferred) as deferred:
        operator(tmp_path / "one").execute(here)
    StorekeeperHook().cancel_job(job_id(here), "not today")
    event = fired(cast("JobTrigger", deferred.value.trigger))
    with pytest.raises(AirflowFailException, match="somebody has cancelled the job: not today"):
        operator(tmp_path / "one").on_over(here, event)


def test_ids_differ_by_dag_run_task_and_map_index_alone() -> None:
    assert job_id(context()) == job_id(context(try_number=2))
    others = {job_id(context(**{name: "b"})) for name in ("dag_id", "run_id", "task_id", "map_index")}
    assert len({job_id(context()), *others}) == 5
    assert len(job_id(context(dag_id="ä" * 300))) <= 128


def test_a_wait_is_given_up_if_the_platform_is_away_for_too_long(
    monkeypatch: pytest.MonkeyPatch, no_connection: None
) -> None:
    monkeypatch.setattr(operators, "NO_ANSWER_S", -1)
    trigger = JobTrigger(name="one", storekeeper_conn_id="storekeeper_default")
    assert "doesn't answer" in fired(trigger)["error"]
    with pytest.raises(AirflowException, match="doesn't answer"):
        operator(Path("one")).on_over(context(), fired(trigger))


def test_a_task_goes_on_after_the_scheduler_has_seen_the_end_of_the_process_that_deferred_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Airflow fails it otherwise. It sees the end after a heartbeat's interval and a loop, of a second or less."""
    options = airflow_options(RunLayout(tmp_path), OwnPlatformSettings.load(run_dir=tmp_path))
    assert options["workers"]["min_heartbeat_interval"] == "1"
    assert conf.getint("workers", "min_heartbeat_interval") + 2 <= FIRST_PAUSE_S, "in an Airflow of others it is longer"
    paused: list[float] = []

    async def sleep(pause_s: float) -> None:
        paused.append(pause_s)

    def job(*_: object) -> dict[str, str]:
        assert paused == [operators.FIRST_PAUSE_S], "it pauses before it asks"
        return {"state": "succeeded"}

    monkeypatch.setattr(operators, "asyncio", SimpleNamespace(sleep=sleep, to_thread=asyncio.to_thread))
    monkeypatch.setattr(StorekeeperHook, "job", job)
    assert fired(JobTrigger(name="one", storekeeper_conn_id="storekeeper_default")) == {"job": "one"}


def test_a_trigger_is_made_anew_from_what_airflow_stores() -> None:
    path, arguments = JobTrigger(name="one", storekeeper_conn_id="c").serialize()
    assert path == "storekeeper_provider.operators.JobTrigger"
    assert JobTrigger(**arguments).serialize() == (path, arguments)


def test_progress_of_a_candidate() -> None:
    process: dict[str, Any] = {"state": "RUNNING", "error": None}
    status = {
        "app": "pos",
        "candidate": 2,
        "processes": {"pos-next": process},
        "generations": [{"generation": 2, "records_behind_live": 7}],
    }
    assert progress_of(status) == {"behind": 7}
    assert "no generation on its way" in progress_of({**status, "candidate": None})["error"]
    failed = {"pos-next": {"state": "FAILED", "error": "no broker"}}
    assert progress_of({**status, "processes": failed}) == {"error": "pos-next has failed: no broker"}


def test_reasons_are_what_the_program_says_last() -> None:
    assert reasons_in(["a", "storekeeper: one", "storekeeper: two"]) == ["one", "two"]
    assert reasons_in(["a", "b"]) == ["b"]
    assert reasons_in([]) == []
