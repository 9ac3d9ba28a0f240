"""The check of a generation's process."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.generation import check_process


def status_of(**beat: Any) -> dict[str, Any]:
    return {"processes": {"pos": {"state": "RUNNING", "error": None, "problem": None, **beat}}}


def test_a_process_that_is_healthy_passes() -> None:
    check_process(status_of(), "pos", must_run=True)


def test_a_process_that_must_run_has_no_problem() -> None:
    silent = status_of(problem="no heartbeat for 31 s")
    check_process(silent, "pos")
    with pytest.raises(AirflowFailException, match=r"pos doesn't run: .*no heartbeat for 31 s"):
        check_process(silent, "pos", must_run=True)


def test_a_process_that_must_run_has_a_heartbeat() -> None:
    missing: dict[str, Any] = {"processes": {"pos": None}}
    check_process(missing, "pos")
    with pytest.raises(AirflowFailException, match="pos doesn't run"):
        check_process(missing, "pos", must_run=True)


def test_a_process_that_has_failed_is_refused_in_any_case() -> None:
    with pytest.raises(AirflowFailException, match="pos has failed: no broker"):
        check_process(status_of(state="FAILED", error="no broker", problem="failed: no broker"), "pos")
