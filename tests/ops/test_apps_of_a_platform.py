"""Which apps a platform runs: processes, topics and stores that follow from the setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from harness.project_apps import SYSTEM_APPS, TILL_APPS
from spark_apps.pos import POS
from storekeeper.apps import registry
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import topology_app
from storekeeper.errors import ConfigurationError
from storekeeper.ops.effective import effective
from storekeeper.ops.environment import derived_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_project.template.spark_apps.template_app import EVENTS, TEMPLATE_APP, topology
from storekeeper.ops.programs import platform_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import supervisor_conf
from storekeeper.ops.supervisor_rpc import SupervisorCredentials
from storekeeper.ops.topics import topics_of
from storekeeper.whole_files import write_whole

STORE = "template_app_totals"
OWN_TOPICS = {"template_app-events", "template_app-dlq", f"template_app-{STORE}-changelog"}


def name_apps(monkeypatch: pytest.MonkeyPatch, *apps: AppSpec) -> None:
    """As if the configuration named these apps alone, each with a driver of its own."""
    for names, values in ((registry.APPS, apps), (registry.DRIVERS, [(app.name,) for app in apps])):
        for name in list(names):
            monkeypatch.delitem(names, name)
        for app, value in zip(apps, values, strict=True):
            monkeypatch.setitem(names, app.name, value)


def programs_of(settings: PlatformSettings) -> set[str]:
    return {program.name for program in platform_programs(RunLayout(settings.run_dir), settings)}


def test_the_apps_that_share_a_driver_have_one_process(tmp_path: Path) -> None:
    found = programs_of(PlatformSettings.load(run_dir=tmp_path))
    assert found & {*TILL_APPS, *SYSTEM_APPS, "shared_driver"} == {*TILL_APPS, "shared_driver"}
    assert {f"{name}-next" for name in SYSTEM_APPS} < found, "a second generation has a process of its own"


def test_processes_topics_and_stores_are_those_of_the_apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path)
    others = programs_of(settings) - {*registry.DRIVERS, *(f"{name}-next" for name in registry.APPS)}
    name_apps(monkeypatch, TEMPLATE_APP)
    assert programs_of(settings) == others | {"template_app", "template_app-next"}
    topics = {topic.name: topic.config["cleanup.policy"] for topic in topics_of(settings, registry.APPS.values())}
    assert topics.keys() == OWN_TOPICS
    assert topics[f"template_app-{STORE}-changelog"] == "compact"
    assert derived_settings(settings)["stores"] == f"{STORE}=template_app-{STORE}-changelog"


def test_a_name_with_a_dot_is_that_of_processes_topics_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "till-team.points"
    name_apps(monkeypatch, topology_app(name, topology, title="Points"))
    settings = PlatformSettings.load(run_dir=tmp_path)
    layout = RunLayout(settings.run_dir)
    programs = platform_programs(layout, settings)
    credentials = SupervisorCredentials("http://127.0.0.1:1", "storekeeper", "secret")
    layout.make()
    write_whole(layout.supervisor_conf, supervisor_conf(layout, settings, credentials, programs).encode())
    options = ServerOptions()
    options.realize(["-c", str(layout.supervisor_conf)])
    assert {name, f"{name}-next"} <= {group.name for group in options.process_group_configs}
    topics = {topic.name for topic in topics_of(settings, registry.APPS.values())}
    assert topics == {EVENTS, f"{name}-dlq", f"{name}-{STORE}-changelog"}
    assert derived_settings(settings)["stores"] == f"{STORE}={name}-{STORE}-changelog"
    assert AppSettings(run_dir=tmp_path).heartbeat_file(name).stem == name


def test_stores_that_are_named_by_hand_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    name_apps(monkeypatch, TEMPLATE_APP)
    monkeypatch.setenv("STOREKEEPER_STORES", "mine=a-topic")
    assert effective(PlatformSettings.load())["stores"].value == "mine=a-topic"


def test_children_find_the_packages_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOREKEEPER_PROJECT_DIR", "mine")
    assert effective(PlatformSettings.load())["project_dir"].value == str(tmp_path / "mine")


@pytest.mark.parametrize(("name", "taken"), [("kafka", "kafka"), ("node-a", "node-a"), ("pos-next", "pos-next")])
def test_an_app_cannot_have_the_name_of_another_process(monkeypatch: pytest.MonkeyPatch, name: str, taken: str) -> None:
    name_apps(monkeypatch, POS, replace(TEMPLATE_APP, name=name, stores=(), tables=()))
    with pytest.raises(ConfigurationError, match=f"needs the name {taken} of another process"):
        programs_of(PlatformSettings.load())
