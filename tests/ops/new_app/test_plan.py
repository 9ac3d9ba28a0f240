from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.topics import end_offsets, read_topic, write_topic
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.ops.new_app.plan import plan_new_app, write_new_app


def run_tests(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *arguments],
        cwd=project,
        env={**os.environ, **environment},  # noqa: TID251 (the child needs PATH and the like)
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_new_app_passes_its_tests_as_it_is(tmp_path: Path) -> None:
    written = write_new_app(plan_new_app("page_views"), tmp_path)
    assert tmp_path / "page_views" / "app.py" in written
    done = run_tests(tmp_path, "-m", "not spark")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_nothing_of_the_template_is_left_in_it() -> None:
    for file in plan_new_app("page_views"):
        assert "template" not in (file.content + str(file.path)).lower()
        assert "noqa: S101" not in file.content


def test_a_name_with_a_prefix_is_that_of_the_app_and_its_topics_not_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_new_app(plan_new_app("till-team.sold_items"), tmp_path)
    assert run_tests(tmp_path, "-m", "not spark").returncode == 0
    monkeypatch.syspath_prepend(tmp_path)
    app = app_named("sold_items.app:SOLD_ITEMS")
    assert app.name == "till-team.sold_items"
    assert app.topics(AppSettings()) == (
        *("till-team.sold_items-events", "till-team.sold_items-dlq"),
        "till-team.sold_items-totals-changelog",
    )


@pytest.mark.parametrize("name", [".points", "till team.points", "till-team.Points", "till-team.storekeeper"])
def test_a_prefix_has_the_letters_of_topics(name: str) -> None:
    with pytest.raises(InvalidNameError):
        plan_new_app(name)


def test_a_test_that_fails_is_seen(tmp_path: Path) -> None:
    write_new_app(plan_new_app("page_views"), tmp_path)
    topology = tmp_path / "page_views" / "app.py"
    topology.write_text(topology.read_text().replace("totals.events + 1", "totals.events + 2"))
    assert run_tests(tmp_path, "-m", "not spark").returncode == 1


@pytest.mark.parametrize(
    "name", ["", "Views", "1views", "page-views", "a__b", "class", "storekeeper", "tests", "../x", "v" * 41]
)
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="can't name an app"):
        plan_new_app(name)


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    write_new_app(plan_new_app("page_views"), tmp_path)
    (tmp_path / "tests" / "conftest.py").write_text("mine = 1\n")
    with pytest.raises(ConfigurationError, match="exists already"):
        write_new_app(plan_new_app("page_views"), tmp_path)
    write_new_app(plan_new_app("orders"), tmp_path)
    assert (tmp_path / "tests" / "conftest.py").read_text() == "mine = 1\n"


def test_an_app_elsewhere_is_named_by_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_new_app(plan_new_app("view_counts"), tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert app_named("view_counts.app:VIEW_COUNTS").name == "view_counts"
    for wrong in ("view_counts.app:NOPE", "no_such_module:APP", "view_counts.app:EVENTS", ":"):
        with pytest.raises(ConfigurationError):
            app_named(wrong)


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.long("test_plan.py runs its tests without Spark")
def test_a_new_app_runs_on_spark(tmp_path: Path, broker: Broker) -> None:
    bootstrap = broker.bootstrap
    write_new_app(plan_new_app("page_views"), tmp_path)
    done = run_tests(tmp_path, "-m", "spark", STOREKEEPER_KAFKA_BOOTSTRAP=bootstrap)
    assert done.returncode == 0, done.stdout
    for topic in ("page_views-events", "page_views-dlq", "page_views-totals-changelog"):
        broker.create_topic(topic)
    write_topic(bootstrap, "page_views-events", [(b"a", b'{"Amount": 4}'), (b"a", b'{"Amount": 5}')])
    apps = AppProcesses(tmp_path / "run", bootstrap)
    command = apps._command(["storekeeper.cli.entry", "run", "page_views.app:PAGE_VIEWS"], {})
    with (tmp_path / "page_views.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        app = AppProcess("page_views", process, tmp_path / "run")
        app.await_caught_up(end_offsets(bootstrap, "page_views-events"))
        assert app.terminate() == 0
    finally:
        process.kill()
    assert read_topic(bootstrap, "page_views-totals-changelog")[-1].value == b'{"Key":"a","Events":2,"Total":9}'
