from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.operators import storekeeper
from dags.operators.storekeeper import StorekeeperOperator, answer_of
from harness.waiting import eventually
from state.program import ExitCode
from tests.dags import toy_job

_WAIT_S = 120
CONTEXT = cast("Context", {})


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy instead of the program."""
    monkeypatch.setattr(
        storekeeper, "storekeeper_command", lambda *words: [sys.executable, "-m", toy_job.__name__, *words]
    )


def operator(*arguments: str, **options: Any) -> StorekeeperOperator:
    return StorekeeperOperator(task_id="job", arguments=list(arguments), **options)


def test_the_last_line_of_output_is_the_result() -> None:
    assert operator("end", "0", '{"rows": 3}').execute(CONTEXT) == {"rows": 3}


def test_empty_arguments_are_left_out() -> None:
    assert operator("", "end", "0", "", '{"rows": 3}').execute(CONTEXT) == {"rows": 3}


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
        ("5", "{}", f"{ExitCode.REFUSED.meaning}: Two lines\nof a reason."),
        ("78", "{}", f"{ExitCode.CONFIGURATION.meaning}: Two lines\nof a reason."),
    ],
)
def test_a_final_exit_code_fails_for_good_with_the_reasons(code: str, output: str, message: str) -> None:
    with pytest.raises(AirflowFailException) as caught:
        operator("end", code, output, finding="quarantined").execute(CONTEXT)
    assert str(caught.value) == message


def test_a_short_command_answers_or_says_why_not() -> None:
    assert answer_of("end", "0", '{"rows": 3}', timeout_s=_WAIT_S) == {"rows": 3}
    with pytest.raises(AirflowException, match=r"`storekeeper end 5 \{\}` ended with .* 5: Two lines\nof a reason"):
        answer_of("end", "5", "{}", timeout_s=_WAIT_S)


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
