from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper_provider.dag_parts.runs import NOTHING, choice_param, why_unknown
from tests.dags.conftest import RunDag

KNOWN = ["store", "ttl_days", "approval"]


@pytest.mark.parametrize("given", [[], ["store"], KNOWN])
def test_the_params_of_a_dag_are_known(given: list[str]) -> None:
    assert why_unknown(given, KNOWN) is None


def test_any_other_is_named_with_the_nearest_one_and_all_that_there_are() -> None:
    assert why_unknown(["store", "tll_days"], KNOWN) == (
        "there is no param `tll_days`: nothing was done. Did you mean `ttl_days`? "
        "The DAG's params: `store`, `ttl_days`, `approval`"
    )
    told = why_unknown(["dry_run"], [])
    assert told == "there is no param `dry_run`: nothing was done. The DAG's params: none"


@pytest.mark.airflow
def test_a_choice_begins_with_the_first_and_is_nothing_where_there_is_none() -> None:
    for choices, shown in ((iter(["b", "a"]), ["b", "a"]), ([], [NOTHING])):
        param = choice_param("Store", "The store.", choices)
        assert (param.resolve(), param.schema["enum"]) == (shown[0], shown)


@pytest.mark.airflow
@pytest.mark.parametrize(
    "dag_id",
    [
        "cleanup_stores",
        pytest.param("upgrade_nodes", marks=pytest.mark.long("test_dag_files.py has the hook of every task")),
    ],
)
def test_a_run_with_an_unknown_param_fails_before_it_does_anything(
    run_dag: RunDag, tmp_path: Path, dag_id: str
) -> None:
    run = run_dag(dag_id, {"dry_run": True})
    assert run.state == "failed"
    assert "there is no param `dry_run`: nothing was done" in run.log
    assert run.results == {}
    assert {path.name for path in (tmp_path / "run" / "jobs").iterdir()} == {"lock"}, "no job was asked for"
