from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness import project
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.topics import end_offsets, read_topic, write_topic
from storekeeper.apps.registry import app_named
from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.ops.new_project.plan import app_files, make_app, make_project, with_app


def run_tests(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "tests", *arguments],
        cwd=project,
        env={**os.environ, **environment},  # noqa: TID251 (the child needs PATH and the like)
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_settings_are_extended_in_one_step(tmp_path: Path) -> None:
    make_project("page_views", tmp_path)
    before = (tmp_path / "storekeeper.toml").read_text()
    with (tmp_path / "storekeeper.toml").open() as reader:
        make_app("orders", tmp_path)
        assert reader.read() == before


def test_a_new_app_passes_its_tests_as_it_is(tmp_path: Path) -> None:
    written = make_project("page_views", tmp_path)
    assert tmp_path / "spark_apps" / "page_views.py" in written
    added = make_app("orders", tmp_path)
    assert tmp_path / "spark_apps" / "orders.py" in added
    done = run_tests(tmp_path, "-m", "not spark")
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_its_settings_name_its_apps(tmp_path: Path) -> None:
    make_project("page_views", tmp_path)
    make_app("till-team.orders", tmp_path)
    settings = tomllib.loads((tmp_path / "storekeeper.toml").read_text())
    assert settings["apps"] == ["spark_apps.page_views:PAGE_VIEWS", "spark_apps.orders:ORDERS"]
    assert (tmp_path / settings["project_dir"] / "dags").is_dir()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("", []),
        ("[spark]\na = 1\n", []),
        ('apps = ["a:A"]\nkafka_port = 1\n', ["a:A"]),
        ('apps = [\n  "a:A", # the ] first\n  "b:B",\n]\n[spark]\n', ["a:A", "b:B"]),
        ("shared_apps = []\napps=[]", []),
    ],
)
def test_a_new_app_is_named_after_the_others(settings: str, named: list[str]) -> None:
    found = tomllib.loads(with_app(settings, "x:X"))
    assert found.pop("apps") == [*named, "x:X"]
    before = tomllib.loads(settings)
    before.pop("apps", None)
    assert found == before


@pytest.mark.parametrize("settings", ["apps = [", '"apps" = ["a:A"]', 'apps = ["a:A" # last\n]'])
def test_settings_that_it_cannot_extend_stay_as_they_are(tmp_path: Path, settings: str) -> None:
    (tmp_path / "storekeeper.toml").write_text(settings)
    with pytest.raises(ConfigurationError, match=r"storekeeper\.toml"):
        make_app("page_views", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["storekeeper.toml"]
    assert (tmp_path / "storekeeper.toml").read_text() == settings


def test_an_app_needs_a_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="storekeeper new-project page_views"):
        make_app("page_views", tmp_path)


def test_a_new_project_has_the_layout_of_this_one(tmp_path: Path) -> None:
    made = {path.relative_to(tmp_path).parts[0] for path in make_project("page_views", tmp_path)}
    assert made == {"spark_apps", "state", "quality", "dags", "tests", "storekeeper.toml"}
    assert [name for name in made if not (project.ROOT / name).exists()] == []


@pytest.mark.long("test_plan.py runs its tests, and mypy checks what it is made from")
def test_type_checkers_have_nothing_to_say(tmp_path: Path) -> None:
    make_project("page_views", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "spark_apps", "state"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_of_the_template_is_left_in_it(tmp_path: Path) -> None:
    for path in make_project("page_views", tmp_path):
        content = path.read_text()
        assert "template" not in (content + str(path.relative_to(tmp_path))).lower()
        assert "noqa: S101" not in content


def test_a_name_with_a_prefix_is_that_of_the_app_and_its_topics_not_of_its_module(tmp_path: Path) -> None:
    make_project("till-team.sold_items", tmp_path)
    assert run_tests(tmp_path, "-m", "not spark").returncode == 0
    tell = "from storekeeper.apps.registry import app_named\nfrom storekeeper.apps.settings import AppSettings\n"
    tell += "app = app_named('till-team.sold_items')\nprint(app.name, *app.topics(AppSettings()))"
    own = project.environment(apps="spark_apps.sold_items:SOLD_ITEMS", shared_apps="", project_dir=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", tell],
        env={**os.environ, **own},  # noqa: TID251 (handed on)
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        *("till-team.sold_items", "till-team.sold_items-events", "till-team.sold_items-dlq"),
        "till-team.sold_items-sold_items_totals-changelog",
    ]


@pytest.mark.parametrize("name", [".points", "till team.points", "till-team.Points"])
def test_a_prefix_has_the_letters_of_topics(name: str) -> None:
    with pytest.raises(InvalidNameError):
        app_files(name)


def test_a_test_that_fails_is_seen(tmp_path: Path) -> None:
    make_project("page_views", tmp_path)
    topology = tmp_path / "spark_apps" / "page_views.py"
    topology.write_text(topology.read_text().replace("totals.events + 1", "totals.events + 2"))
    assert run_tests(tmp_path, "-m", "not spark").returncode == 1


@pytest.mark.parametrize("name", ["", "Views", "1views", "page-views", "a__b", "class", "pos", "../x", "v" * 41])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="can't name an app"):
        app_files(name)


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    make_project("page_views", tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for make, name in ((make_project, "page_views"), (make_project, "orders"), (make_app, "page_views")):
        with pytest.raises(ConfigurationError, match="exists already"):
            make(name, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_app_that_the_settings_do_not_name_is_named_by_its_spec() -> None:
    assert app_named("storekeeper.ops.new_project.template.spark_apps.template_app:TEMPLATE_APP").name == "template_app"
    for wrong in ("spark_apps.pos:NOPE", "no_such_module:APP", "spark_apps.pos:topology", ":"):
        with pytest.raises(ConfigurationError):
            app_named(wrong)


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.long("test_plan.py runs its tests without Spark")
def test_a_new_app_runs_on_spark(tmp_path: Path, broker: Broker) -> None:
    bootstrap = broker.bootstrap
    make_project("page_views", tmp_path)
    done = run_tests(tmp_path, "-m", "spark", STOREKEEPER_KAFKA_BOOTSTRAP=bootstrap)
    assert done.returncode == 0, done.stdout
    for topic in ("page_views-events", "page_views-dlq", "page_views-page_views_totals-changelog"):
        broker.create_topic(topic)
    write_topic(bootstrap, "page_views-events", [(b"a", b'{"Amount": 4}'), (b"a", b'{"Amount": 5}')])
    apps = AppProcesses(tmp_path / "run", bootstrap)
    command = apps._command(["storekeeper.cli.entry", "run", "spark_apps.page_views:PAGE_VIEWS"], {})
    with (tmp_path / "page_views.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        app = AppProcess("page_views", process, tmp_path / "run")
        app.await_caught_up(end_offsets(bootstrap, "page_views-events"))
        assert app.terminate() == 0
    finally:
        process.kill()
    assert (
        read_topic(bootstrap, "page_views-page_views_totals-changelog")[-1].value == b'{"Key":"a","Events":2,"Total":9}'
    )
