from __future__ import annotations

import subprocess
import sys

import pytest

from harness.project_apps import TILL_APPS
from storekeeper.apps.registry import APPS, app_named, store_named, stores
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError, UnknownStoreError

SETTINGS = AppSettings()


def test_the_apps_of_the_tills_and_their_topics() -> None:
    assert {name: app.topics(SETTINGS) for name, app in TILL_APPS.items()} == {
        "pos": ("pos", "hadoop-sink", "shipment", "loyalty", "pos-dlq", "pos-rewards-changelog"),
        "hadoop_export": ("hadoop-sink", "hadoop_export-dlq"),
    }


def test_one_app_reports_the_dead_letters_of_a_topic() -> None:
    reported = [topic for app in APPS.values() if app.dead_letters for topic in app.sources(SETTINGS)]
    assert len(set(reported)) == len(reported)
    assert set(reported) == {topic for app in APPS.values() for topic in app.sources(SETTINGS)}


def test_stores_are_found_by_name() -> None:
    assert store_named("rewards").changelog_topic == "pos-rewards-changelog"
    assert {name: store.app for name, store in stores().items() if store.app in TILL_APPS} == {"rewards": "pos"}


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="pos, hadoop_export"):
        app_named("nope")
    with pytest.raises(UnknownStoreError, match="rewards"):
        store_named("nope")


@pytest.mark.parametrize(
    "module",
    [
        "storekeeper.apps.registry",
        "storekeeper.engine.runtime.heartbeat",
        "storekeeper.apps.settings",
        "storekeeper.cli.run",
    ],
)
def test_whoever_only_watches_apps_loads_no_spark(module: str) -> None:
    check = f"import sys, {module}; sys.exit(int('pyspark' in sys.modules or 'rocksdict' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.spark
def test_every_app_has_a_stream() -> None:
    for app in APPS.values():
        assert (app.describe is None) != (app.table_sink is None)
