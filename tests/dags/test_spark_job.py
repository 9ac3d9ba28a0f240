from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.operators.spark_job import SparkJobOperator, _error_in
from harness.waiting import eventually

_WAIT_S = 120
CONTEXT = cast("Context", {})


def operator(*arguments: str, **options: Any) -> SparkJobOperator:
    return SparkJobOperator(task_id="job", module="tests.dags.toy_job", arguments=list(arguments), **options)


def test_the_last_line_of_output_is_the_result() -> None:
    assert operator("end", "0", '{"rows": 3}').execute(CONTEXT) == {"rows": 3}


def test_a_job_without_a_result_has_failed() -> None:
    with pytest.raises(AirflowException, match="no JSON object"):
        operator("end", "0", "done").execute(CONTEXT)


def test_a_failure_is_left_to_retries_with_the_end_of_the_log() -> None:
    with pytest.raises(AirflowException, match=r"exit code 75: a line of the log\nThe end of its log:\n") as caught:
        operator("end", "75", "{}").execute(CONTEXT)
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    ("code", "output", "message"),
    [
        ("4", '{"reasons": ["City holds a number.", "b"]}', "quarantined: City holds a number.\nb"),
        ("78", "", "a retry can't help: a line of the log"),
    ],
)
def test_a_final_exit_code_fails_for_good_with_the_reasons(code: str, output: str, message: str) -> None:
    with pytest.raises(AirflowFailException) as caught:
        operator("end", code, output, final_exit_codes={4: "quarantined"}).execute(CONTEXT)
    assert str(caught.value) == message


def test_the_reason_is_the_error_of_the_last_line_of_the_log() -> None:
    line = 'timestamp=2026-11-25T18:00:00Z level=error event=failed kind=StateError error="no \\"prices\\": start it"'
    assert _error_in(line) == 'no "prices": start it'
    assert _error_in("a line of the log") == "a line of the log"


def test_ending_the_task_ends_the_job_and_its_children(tmp_path: Path) -> None:
    hanging = operator("hang", str(tmp_path / "child"))
    failure: list[BaseException] = []

    def run() -> None:
        try:
            hanging.execute(CONTEXT)
        except AirflowException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually((tmp_path / "child").exists, _WAIT_S, "the job starts")
    child = psutil.Process(int((tmp_path / "child").read_text()))
    hanging.on_kill()
    thread.join(_WAIT_S)
    assert not thread.is_alive()
    assert failure
    psutil.wait_procs([child], timeout=_WAIT_S)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
