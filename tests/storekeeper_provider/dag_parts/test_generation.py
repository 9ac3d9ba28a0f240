"""The check of a generation's process."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider.dag_parts.generation import check_process


def status_of(**beat: Any) -> dict[str, Any]:
    return {"processes": {"pos": {"state": "RUNNING", "error": None, "problem": None, **beat}}}


def test_a_process_that_is_healthy_passes() -> None:
    check_process(status_of(), "pos")


def test_a_process_with_a_problem_is_refused() -> None:
    with pytest.raises(AirflowFailException, match=r"pos doesn't run: .*no heartbeat for 31 s"):
        check_process(status_of(problem="no heartbeat for 31 s"), "pos")


def test_a_process_without_a_heartbeat_is_refused() -> None:
    with pytest.raises(AirflowFailException, match="pos doesn't run"):
        check_process({"processes": {"pos": None}}, "pos")
