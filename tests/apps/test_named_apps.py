"""Apps that the environment names, as every process that knows the apps finds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from storekeeper.ops.new_project.plan import make_project

Run = Callable[..., subprocess.CompletedProcess[str]]
"""Runs Python with the arguments given; `apps` is the setting."""

TELL = """
import sys
from storekeeper.apps.registry import APPS, DRIVERS, store_definitions
print(*APPS, APPS["page_views"].title, *DRIVERS, sep="|")
print(store_definitions())
print("pyspark" in sys.modules)
"""

REFUSED = (
    ("spark_apps.page_clicks:PAGE_CLICKS", "No module named 'spark_apps.page_clicks'"),
    ("broken:APP", "SyntaxError"),
    ("spark_apps.page_views:PAGE_CLICKS", "has no attribute 'PAGE_CLICKS'"),
    ("spark_apps.page_views", "named <module>:<variable>"),
    ("odd:A_TEXT", "is not an AppSpec"),
    ("odd:A_PROCESS", "an app shared_driver, and there is another"),
    ("spark_apps.page_views:PAGE_VIEWS,odd:AGAIN", "an app page_views, and there is another"),
    ("spark_apps.page_views:PAGE_VIEWS,odd:SAME_STORE", "page_views and odd both have a store page_views_totals"),
)
"""Values of the setting, and what the message about each has in it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's with an app, and with things that can't be one."""
    made = tmp_path_factory.mktemp("own")
    make_project("page_views", made)
    (made / "broken.py").write_text("APP = (")
    (made / "odd.py").write_text(
        "from dataclasses import replace\n"
        "from spark_apps.page_views import PAGE_VIEWS\n"
        "A_TEXT = 'page_views'\n"
        "A_PROCESS = replace(PAGE_VIEWS, name='shared_driver', stores=(), tables=())\n"
        "SAME_STORE = replace(PAGE_VIEWS, name='odd')\n"
        "ODD = replace(PAGE_VIEWS, name='odd', stores=(), tables=())\n"
        "AGAIN = replace(PAGE_VIEWS, stores=(), tables=())\n"
    )
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    def started(*arguments: str, apps: str, environment: Mapping[str, str] | None = None) -> object:
        own = {"STOREKEEPER_APPS": apps, "STOREKEEPER_SHARED_APPS": "", "STOREKEEPER_PROJECT_DIR": str(folder)}
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **own, **(environment or {})},  # noqa: TID251 (handed on)
            capture_output=True,
            text=True,
            check=False,
        )

    return started  # type: ignore[return-value]


def test_an_app_that_the_environment_names_is_one_of_the_apps(run: Run) -> None:
    done = run("-c", TELL, apps="spark_apps.page_views:PAGE_VIEWS")
    app, stores, loaded = done.stdout.splitlines()
    assert app == "page_views|The totals of each key|page_views"
    assert stores == "page_views_totals=page_views-page_views_totals-changelog"
    assert loaded == "False", "to know the apps, a process would load Spark"


def test_apps_share_a_driver_where_the_configuration_says_so(run: Run) -> None:
    both = {"STOREKEEPER_SHARED_APPS": "spark_apps.page_views:PAGE_VIEWS, odd:ODD"}
    done = run("-c", TELL, apps="", environment=both)
    assert done.stdout.splitlines()[0] == "page_views|odd|The totals of each key|shared_driver"
    done = run("-c", TELL, apps="odd:ODD", environment=both)
    assert "odd:ODD is in apps and in shared_apps" in done.stderr


def test_a_projects_packages_count_more_than_installed_ones(run: Run, folder: Path) -> None:
    """This checkout has folders of the same names, and is on the path too."""
    where = "import storekeeper.apps.registry, json, storekeeper, state; print(state.__path__, json.__file__)"
    done = run("-c", where, apps="spark_apps.page_views:PAGE_VIEWS")
    assert done.stdout.startswith(f"['{folder}/state']"), done.stderr


@pytest.fixture(scope="module")
def refusals(run: Run) -> dict[str, tuple[int, str]]:
    """The exit code and the standard error of a command, for each of `REFUSED`."""
    done = run("-m", "tests.apps.refusing_commands", *(apps for apps, _ in REFUSED), apps="")
    return {apps: found for (apps, _), found in zip(REFUSED, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("apps", "message"), REFUSED)
def test_one_that_cannot_be_is_refused_with_a_sentence(
    refusals: dict[str, tuple[int, str]], apps: str, message: str
) -> None:
    code, shown = refusals[apps]
    assert code == 78
    assert message in shown
    assert "Traceback" not in shown


def test_an_app_is_not_run_beside_one_that_cannot_be(run: Run) -> None:
    done = run("-m", "storekeeper.cli.entry", "run", "pos", apps="broken:APP")
    assert done.returncode == 78
    assert "SyntaxError" in done.stderr


def test_one_that_cannot_be_keeps_nobody_from_ending_what_runs(run: Run, tmp_path: Path) -> None:
    for command, code in (("down", 0), ("status", 4), ("--help", 0)):
        done = run(
            *("-m", "storekeeper.cli.entry", command),
            apps="odd:A_TEXT",
            environment={"STOREKEEPER_RUN_DIR": str(tmp_path)},
        )
        assert done.returncode == code, done.stderr
        assert "going on without the apps" in done.stderr


def test_commands_ask_the_nodes_that_the_platform_was_started_with(run: Run, tmp_path: Path) -> None:
    started_with = tmp_path / "settings.toml"
    started_with.write_text('peers = "x=http://127.0.0.1:1"')
    moved = {"STOREKEEPER_CONFIG": str(started_with)}
    done = run(*("-m", "storekeeper.cli.entry", "get", "page_views_totals", "a"), apps="", environment=moved)
    assert "http://127.0.0.1:1:" in done.stderr


@pytest.mark.spark
def test_workers_have_the_code_of_when_the_app_began(run: Run) -> None:
    names = {"spark_apps.page_views", "storekeeper.engine.stages", "storekeeper.engine.table_sink.stream"}
    loaded = f"import sys, storekeeper.engine.worker_daemon_of_tables; print(*({names} & sys.modules.keys()))"
    done = run("-c", loaded, apps="spark_apps.page_views:PAGE_VIEWS")
    assert set(done.stdout.split()) == names, done.stderr


def test_an_installed_one_needs_no_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "views.py").write_text(
        "from dataclasses import replace\n"
        "from storekeeper.ops.new_project.template.spark_apps.template_app import TEMPLATE_APP\n"
        "PAGE_VIEWS = replace(TEMPLATE_APP, name='page_views')\n"
    )
    path = f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{tmp_path}"  # noqa: TID251 (handed on)
    done = run(*("-c", TELL), apps=" views:PAGE_VIEWS, ,views:PAGE_VIEWS", environment={"PYTHONPATH": path})
    assert done.stdout.startswith("page_views|"), done.stderr
