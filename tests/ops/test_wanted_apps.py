"""Which apps a platform runs: processes, topics and stores that follow from the setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from storekeeper.apps.registry import ON_DEMAND_APPS, POS_APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import topology_app
from storekeeper.errors import ConfigurationError
from storekeeper.ops import wanted_apps
from storekeeper.ops.effective import effective
from storekeeper.ops.environment import derived_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.new_app.template_app.app import EVENTS, TEMPLATE_APP, topology
from storekeeper.ops.programs import platform_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import supervisor_conf
from storekeeper.ops.supervisor_rpc import SupervisorCredentials
from storekeeper.ops.topics import topics_of
from storekeeper.whole_files import write_whole

OWN_TOPICS = {"template_app-events", "template_app-dlq", "template_app-totals-changelog"}
OWN_STORE = "totals=template_app-totals-changelog"


def name_own(monkeypatch: pytest.MonkeyPatch, app: AppSpec) -> None:
    """As if the environment named it."""
    monkeypatch.setattr(wanted_apps, "USER_APPS", {app.name: app})
    monkeypatch.setattr(wanted_apps, "KEPT_APPS", {**POS_APPS, app.name: app})


def programs_of(settings: PlatformSettings) -> set[str]:
    return {program.name for program in platform_programs(RunLayout(settings.run_dir), settings, {})}


@pytest.mark.parametrize(
    ("apps", "others"), [("own", set()), ("pos", {*POS_APPS}), ("all", {*POS_APPS, "shared_driver"})]
)
def test_own_apps_run_whatever_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apps: str, others: set[str]
) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path, apps=apps)
    without = programs_of(settings)
    name_own(monkeypatch, TEMPLATE_APP)
    assert programs_of(settings) == without | {"template_app", "template_app-next"}
    assert without & {*POS_APPS, *ON_DEMAND_APPS, "shared_driver"} == others
    topics = {
        topic.name: topic.config["cleanup.policy"]
        for topic in topics_of(settings, wanted_apps.wanted_apps(settings).values())
    }
    assert topics.keys() >= OWN_TOPICS
    assert (topics.keys() == OWN_TOPICS) == (apps == "own")
    assert topics["template_app-totals-changelog"] == "compact"
    served = derived_settings(settings)["stores"].split(",")
    assert OWN_STORE in served
    assert ("rewards=pos-rewards-changelog" in served) == (apps != "own")


def test_a_name_with_a_dot_is_that_of_processes_topics_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "till-team.points"
    name_own(monkeypatch, topology_app(name, topology, title="Points"))
    settings = PlatformSettings.load(run_dir=tmp_path, apps="own")
    layout = RunLayout(settings.run_dir)
    programs = platform_programs(layout, settings, {})
    credentials = SupervisorCredentials("http://127.0.0.1:1", "storekeeper", "secret")
    layout.make()
    write_whole(layout.supervisor_conf, supervisor_conf(layout, settings, credentials, programs).encode())
    options = ServerOptions()
    options.realize(["-c", str(layout.supervisor_conf)])
    assert {name, f"{name}-next"} <= {group.name for group in options.process_group_configs}
    topics = {topic.name for topic in topics_of(settings, wanted_apps.wanted_apps(settings).values())}
    assert topics == {EVENTS, f"{name}-dlq", f"{name}-totals-changelog"}
    assert derived_settings(settings)["stores"] == f"totals={name}-totals-changelog"
    assert AppSettings(run_dir=tmp_path).heartbeat_file(name).stem == name


def test_stores_that_are_named_by_hand_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    name_own(monkeypatch, TEMPLATE_APP)
    monkeypatch.setenv("STOREKEEPER_STORES", "mine=a-topic")
    assert effective(PlatformSettings.load())["stores"].value == "mine=a-topic"


def test_children_find_the_packages_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOREKEEPER_OWN_APPS_DIR", "mine")
    assert effective(PlatformSettings.load())["own_apps_dir"].value == str(tmp_path / "mine")


@pytest.mark.parametrize(("name", "taken"), [("kafka", "kafka"), ("node-a", "node-a"), ("pos-next", "pos-next")])
def test_an_app_cannot_have_the_name_of_another_process(monkeypatch: pytest.MonkeyPatch, name: str, taken: str) -> None:
    name_own(monkeypatch, replace(TEMPLATE_APP, name=name, stores=()))
    with pytest.raises(ConfigurationError, match=f"needs the name {taken} of another process"):
        programs_of(PlatformSettings.load())
