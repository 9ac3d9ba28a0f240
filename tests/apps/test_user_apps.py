"""Apps that the environment names, as every process that knows the apps finds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from storekeeper.ops.new_app.plan import plan_new_app, write_new_app

Run = Callable[..., subprocess.CompletedProcess[str]]
"""Runs Python with the arguments given; `own_apps` is the setting."""

TELL = """
import sys
from storekeeper.apps.registry import APPS, ON_DEMAND_APPS, USER_APPS, store_definitions, stores
import tests
print(*USER_APPS, APPS["page_views"].title, "page_views" in ON_DEMAND_APPS, stores()["totals"].app, sep="|")
print(store_definitions(USER_APPS.values()))
print("pyspark" in sys.modules, tests.__path__)
"""

REFUSED = (
    ("page_clicks.spec:PAGE_CLICKS", "No module named 'page_clicks'"),
    ("broken:APP", "SyntaxError"),
    ("page_views.app:PAGE_CLICKS", "has no attribute 'PAGE_CLICKS'"),
    ("page_views", "named <module>:<variable>"),
    ("odd:A_TEXT", "is not an AppSpec"),
    ("odd:TAKEN", "an app pos, and there is another"),
    ("odd:A_PROCESS", "an app shared_driver, and there is another"),
    ("odd:TAKEN_STORE", "apps pos and page_views both have a store rewards"),
    ("page_views.app:PAGE_VIEWS,odd:AGAIN", "an app page_views, and there is another"),
    ("page_views.app:PAGE_VIEWS,page_counts.app:PAGE_COUNTS", "page_views and page_counts both have a store tot"),
)
"""Values of the setting, and what the message about each has in it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's with an app, and with things that can't be one."""
    made = tmp_path_factory.mktemp("own")
    write_new_app(plan_new_app("page_views"), made)
    write_new_app(plan_new_app("page_counts"), made)
    (made / "tests" / "__init__.py").touch()
    (made / "broken.py").write_text("APP = (")
    (made / "odd.py").write_text(
        "from dataclasses import replace\n"
        "from page_views.app import PAGE_VIEWS\n"
        "A_TEXT = 'page_views'\n"
        "TAKEN = replace(PAGE_VIEWS, name='pos', stores=())\n"
        "A_PROCESS = replace(PAGE_VIEWS, name='shared_driver', stores=())\n"
        "TAKEN_STORE = replace(PAGE_VIEWS, stores=(replace(PAGE_VIEWS.stores[0], name='rewards'),))\n"
        "WITHOUT_MODULE = replace(PAGE_VIEWS, name='odd', module='nowhere', stores=(), tables=())\n"
        "AGAIN = replace(PAGE_VIEWS, stores=(), tables=())\n"
    )
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    def started(*arguments: str, own_apps: str, environment: Mapping[str, str] | None = None) -> object:
        own = {"STOREKEEPER_OWN_APPS": own_apps, "STOREKEEPER_OWN_APPS_DIR": str(folder)}
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **own, **(environment or {})},  # noqa: TID251 (handed on)
            capture_output=True,
            text=True,
            check=False,
        )

    return started  # type: ignore[return-value]


def test_an_app_that_the_environment_names_is_one_of_the_apps(run: Run) -> None:
    done = run("-c", TELL, own_apps="page_views.app:PAGE_VIEWS")
    told, stores, loaded = done.stdout.splitlines()
    assert told == "page_views|The totals of each key|False|page_views"
    assert stores == "totals=page_views-totals-changelog"
    assert loaded.startswith("False"), "whoever knows the apps would load Spark"
    assert str(Path(__file__).parents[1]) in loaded, "a package of that folder hides one of ours"


@pytest.fixture(scope="module")
def refusals(run: Run) -> dict[str, tuple[int, str]]:
    """The exit code and the standard error of a command, for each of `REFUSED`."""
    done = run("-m", "tests.apps.refusing_commands", *(own_apps for own_apps, _ in REFUSED), own_apps="")
    return {own_apps: found for (own_apps, _), found in zip(REFUSED, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("own_apps", "message"), REFUSED)
def test_one_that_cannot_be_is_refused_with_a_sentence(
    refusals: dict[str, tuple[int, str]], own_apps: str, message: str
) -> None:
    code, shown = refusals[own_apps]
    assert code == 78
    assert message in shown
    assert "Traceback" not in shown


def test_an_app_is_not_run_beside_one_that_cannot_be(run: Run) -> None:
    done = run("-m", "storekeeper.cli.entry", "run", "pos", own_apps="broken:APP")
    assert done.returncode == 78
    assert "SyntaxError" in done.stderr


def test_one_that_cannot_be_keeps_nobody_from_ending_what_runs(run: Run, tmp_path: Path) -> None:
    for command, code in (("down", 0), ("status", 4), ("--help", 0)):
        done = run(
            *("-m", "storekeeper.cli.entry", command),
            own_apps="odd",
            environment={"STOREKEEPER_RUN_DIR": str(tmp_path)},
        )
        assert done.returncode == code, done.stderr
        assert "going on without your own apps" in done.stderr


def test_commands_ask_the_nodes_that_the_platform_was_started_with(run: Run, tmp_path: Path) -> None:
    started_with = tmp_path / "settings.toml"
    started_with.write_text('peers = "x=http://127.0.0.1:1"')
    moved = {"STOREKEEPER_CONFIG": str(started_with)}
    done = run(*("-m", "storekeeper.cli.entry", "get", "totals", "a"), own_apps="", environment=moved)
    assert "http://127.0.0.1:1:" in done.stderr


@pytest.mark.spark
def test_workers_have_the_code_of_when_the_app_began(run: Run) -> None:
    names = {"page_views.app", "storekeeper.engine.stages", "storekeeper.samples.hadoop_export.app"}
    loaded = f"import sys, storekeeper.engine.worker_daemon; print(*({names} & sys.modules.keys()))"
    done = run("-c", loaded, own_apps="page_views.app:PAGE_VIEWS,odd:WITHOUT_MODULE")
    assert set(done.stdout.split()) == names, done.stderr


def test_an_installed_one_needs_no_folder(run: Run, folder: Path) -> None:
    done = run(
        *("-c", TELL),
        own_apps=" page_views.app:PAGE_VIEWS, ,page_views.app:PAGE_VIEWS",
        environment={"STOREKEEPER_OWN_APPS_DIR": str(folder / "elsewhere"), "PYTHONPATH": str(folder)},
    )
    assert done.stdout.startswith("page_views|"), done.stderr
