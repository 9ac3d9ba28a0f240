from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from storekeeper.engine.runtime.scale import AppScale
from storekeeper.ops.airflow_home import KEPT_DAYS
from storekeeper_provider import POOL
from tests.dags.conftest import DagServer
from tests.ops.control.supervised import environment

pytestmark = pytest.mark.airflow

FOLDER = Path(__file__).parents[2] / "storekeeper_provider" / "dags"
IDS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

_DESCRIBE = """
import json, os, sys
from airflow.dag_processing.dagbag import DagBag
own = [os.path.realpath(path) for path in (sys.argv[1], os.environ["AIRFLOW_HOME"], sys.prefix, sys.base_prefix)]
parsing, asked = False, []
def look(event, arguments):
    if not parsing:
        return
    if event.startswith(("socket.", "subprocess.", "os.exec", "os.posix_spawn", "os.fork")):
        asked.append(event)
    elif event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not any(path.startswith(folder + os.sep) for folder in own):
            asked.append(path)
sys.addaudithook(look)
parsing = True
bag = DagBag()
parsing = False
from storekeeper_provider.dag_parts.runs import refuse_unknown_params
dags = {
    dag.dag_id: {
        "file": dag.fileloc, "doc": dag.doc_md, "tags": sorted(dag.tags), "owner": dag.owner, "catchup": dag.catchup,
        "title": dag.dag_display_name, "description": dag.description,
        "runs": dag.max_active_runs, "scheduled": dag.timetable.can_be_scheduled,
        "timeout_s": dag.dagrun_timeout.total_seconds(),
        "params": {
            name: {**dag.params.get_param(name).schema, "description": dag.params.get_param(name).description}
            for name in dag.params
        },
        "tasks": {
            task.task_id: {
                "arguments": getattr(task, "arguments", None), "outlets": [asset.name for asset in task.outlets],
                "limit": bool(task.execution_timeout or getattr(task, "response_timeout", None)),
                "command": getattr(task, "command", None), "pool": task.pool, "type": task.task_type,
                "refuses": refuse_unknown_params in (getattr(task, "_pre_execute_hook", None),
                                                     getattr(task, "partial_kwargs", {}).get("pre_execute")),
            }
            for task in dag.tasks
        },
    }
    for dag in bag.dags.values()
}
needless = ("pyspark", "rocksdict", "confluent_kafka", "pyarrow", "storekeeper")
needless = [name for name in needless if name in sys.modules]
print("\\n" + json.dumps({"errors": bag.import_errors, "needless": needless, "asked": asked, "dags": dags}))
"""


@pytest.fixture(scope="module")
def parsed(airflow_home: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _DESCRIBE, str(FOLDER.parent)],
        env=environment(tmp_path_factory.mktemp("run"), **airflow_home),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_file_is_a_dag_of_its_name(parsed: dict[str, Any]) -> None:
    assert parsed["errors"] == {}
    assert sorted(parsed["dags"]) == IDS
    assert all(Path(dag["file"]).stem == dag_id for dag_id, dag in parsed["dags"].items())


def test_jobs_share_a_pool_and_changes_of_apps_wait_for_no_other(parsed: dict[str, Any]) -> None:
    """Waits for a person or a clock would hold a slot for days: the pool counts deferred tasks."""
    tasks = [task for dag in parsed["dags"].values() for task in dag["tasks"].values()]
    pools = Counter((task["pool"], task["type"]) for task in tasks)
    of_jobs = {"StorekeeperJobOperator", "GenerationOperator", "TableOperator"}
    assert {name for pool, name in pools if pool == POOL} == of_jobs
    alone = [task["arguments"][0].split()[0] for task in tasks if task["arguments"] and task["pool"] != POOL]
    assert {*alone} <= {"app", "upgrade-nodes"}


def test_parsing_loads_nothing_of_the_product_but_the_provider(parsed: dict[str, Any]) -> None:
    assert parsed["needless"] == []


def test_parsing_asks_neither_network_nor_processes_nor_files_outside_the_project(parsed: dict[str, Any]) -> None:
    assert parsed["asked"] == []


@pytest.mark.parametrize("dag_id", IDS)
def test_every_dag_tells_what_it_is_and_has_limits(parsed: dict[str, Any], dag_id: str) -> None:
    dag = parsed["dags"][dag_id]
    assert all(heading in dag["doc"] for heading in ("**What it does.**", "fail"))
    assert dag["title"].endswith(f" ({dag_id})"), "Airflow's search looks at display names"
    assert dag["description"]
    assert dag["tags"]
    assert dag["owner"] == "storekeeper"
    assert (dag["catchup"], dag["runs"]) == (False, 1)
    longest = timedelta(hours=1) if dag["scheduled"] else timedelta(days=KEPT_DAYS - 2)
    assert dag["timeout_s"] <= longest.total_seconds()
    assert all(task["limit"] for task in dag["tasks"].values())
    assert all(task["refuses"] for task in dag["tasks"].values()), "give it `default_args=task_defaults(...)`"
    for name, schema in dag["params"].items():
        assert f"`{name}`" in dag["doc"]
        assert {"type", "title"} <= schema.keys()
        assert schema["type"] == "boolean" or schema.keys() & {
            "enum",
            "pattern",
            "minimum",
            "exclusiveMinimum",
            "items",
        }
        assert schema["description"]
        assert all(f"`{value}`" in dag["doc"] for value in schema.get("enum", ()) if name == "action")


def schemas(parsed: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The JSON schema of every param, or of its items, by DAG and name."""
    return {
        (dag_id, name): schema.get("items", schema)
        for dag_id, dag in parsed["dags"].items()
        for name, schema in dag["params"].items()
    }


GOOD_TEXTS = {
    ("erase_keys", "erasure_id"): "20260131T120000000Z",
    ("migrate_state", "since"): "2026-01-31T00:00:00Z",
    ("release_quarantined", "batch"): "12-14",
    ("release_quarantined", "reason"): "the till was down for an hour",
    ("undo_cleanup", "cleanup_id"): "20260131T120000000Z",
}
"""For each param with a pattern, a text that it accepts."""


def accepts(schema: dict[str, Any], value: object) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


def test_no_text_is_accepted_with_a_newline_behind_it(parsed: dict[str, Any]) -> None:
    patterns = {param: schema for param, schema in schemas(parsed).items() if "pattern" in schema}
    assert patterns.keys() == GOOD_TEXTS.keys()
    for param, schema in patterns.items():
        assert accepts(schema, GOOD_TEXTS[param]), param
        assert not accepts(schema, GOOD_TEXTS[param] + "\n"), param


def test_numbers_are_finite_and_within_bounds(parsed: dict[str, Any]) -> None:
    numbers = {param: schema for param, schema in schemas(parsed).items() if {"number", "integer"} & set(kinds(schema))}
    assert len(numbers) > 5
    for param, schema in numbers.items():
        low, high = schema["minimum"], schema["maximum"]
        assert accepts(schema, low), param
        assert accepts(schema, high), param
        wrong = [float("nan"), float("inf"), float("-inf"), low - 1, high + 1]
        assert not [value for value in wrong if accepts(schema, value)], param


def kinds(schema: dict[str, Any]) -> list[str]:
    kind = schema["type"]
    return kind if isinstance(kind, list) else [kind]


def test_the_sizes_of_the_form_are_those_of_an_app(parsed: dict[str, Any]) -> None:
    assert parsed["dags"]["stream_apps"]["params"].keys() - {"app", "action"} == AppScale.model_fields.keys()


def test_jobs_are_the_commands_that_exist_and_update_their_tables(parsed: dict[str, Any]) -> None:
    snapshot = parsed["dags"]["snapshot_stores"]["tasks"]
    assert snapshot.keys() == {"choose", "snapshot"}
    by_schedule = "{{ '--when-due' if dag_run.run_type == 'scheduled' else '' }}"
    assert snapshot["choose"]["command"] == ["snapshot", "create", by_schedule]
    check = parsed["dags"]["check_tables"]["tasks"]
    assert check.keys() == {"choose", "check"}
    assert check["choose"]["command"] == ["check"]
    assert parsed["dags"]["check_stores"]["tasks"]["choose"]["command"] == ["check"]


WRONG: dict[str, list[dict[str, Any]]] = {
    "check_tables": [{"table": "rewards"}],
    "erase_keys": [{"store": "nothing"}, {"erasure_id": "4836051607"}],
    "cleanup_stores": [{"store": "sales"}, {"ttl_days": 0}, {"canary_share": 1.5}, {"canary_share": float("nan")}],
    "migrate_state": [
        {"app": "hadoop_export"},
        {"migrations": ["a; rm"]},
        {"partitions": -1},
        {"since": "beginning; rm"},
    ],
    "release_quarantined": [{"table": "nothing", "batch": "1-1", "reason": "ten letters"}],
    "rollback_state": [{"discard": "yes"}],
    "snapshot_stores": [{"store": "nothing"}],
    "stream_apps": [{"app": "nobody"}, {"action": "destroy"}, {"action": 1}, {"cores": -1}],
    "undo_cleanup": [{"cleanup_id": "../../etc"}, {"cleanup_id": "20260131T120000000Z\n"}],
}


@pytest.mark.parametrize("dag_id", WRONG)
def test_wrong_params_are_refused_before_anything_runs(
    dag_server: DagServer, airflow_home: dict[str, str], tmp_path: Path, dag_id: str
) -> None:
    run_dir = tmp_path / "run"
    assert dag_server.taken(dag_id, WRONG[dag_id], environment(run_dir, **airflow_home), tmp_path / "log") == []
    assert list(run_dir.iterdir()) == []
