"""What child processes find in their environment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from storekeeper.ops.environment import (
    PLATFORM_MARKER,
    Instance,
    airflow_environment,
    child_environment,
    derived_settings,
)
from storekeeper.ops.programs import KAFKA
from storekeeper.ops.settings import PlatformSettings


def test_children_are_marked_and_told_where_things_are(tmp_path: Path) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path, kafka_port=20000)
    environment = child_environment(settings, {"PATH": "/usr/bin"})
    assert environment["STOREKEEPER_RUN_DIR"] == str(tmp_path)
    assert environment[PLATFORM_MARKER] == str(tmp_path)
    assert environment["STOREKEEPER_CONFIG"] == str(tmp_path / "settings.toml")
    derived = derived_settings(settings)
    assert derived["kafka_bootstrap"] == "127.0.0.1:20000"
    assert derived["peers"] == "a=http://127.0.0.1:18101,b=http://127.0.0.1:18102"
    assert airflow_environment(settings)["AIRFLOW_HOME"] == str(tmp_path / "airflow")


def test_nodes_are_where_the_configuration_says(tmp_path: Path) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path, node_names="a,b", peers="b=https://h2:9,far=https://h3:9")
    assert settings.node_urls == {"a": "http://127.0.0.1:18101", "b": "https://h2:9"}
    assert derived_settings(settings)["peers"] == "b=https://h2:9,far=https://h3:9,a=http://127.0.0.1:18101"
    none_here = PlatformSettings.load(run_dir=tmp_path, node_names="")
    assert (none_here.node_urls, derived_settings(none_here)["peers"]) == ({}, "")


def test_a_driver_on_a_cluster_is_reached_from_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert child_environment(PlatformSettings.load(), {})["SPARK_LOCAL_IP"] == "127.0.0.1"
    monkeypatch.setenv("STOREKEEPER_SPARK_MASTER", "spark://h1:7077")
    assert "SPARK_LOCAL_IP" not in child_environment(PlatformSettings.load(), {})


def test_airflow_reaches_the_control_api_by_a_connection_that_holds_no_secret(tmp_path: Path) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path, control_port=20001)
    connection = json.loads(airflow_environment(settings)["AIRFLOW_CONN_STOREKEEPER_DEFAULT"])
    assert (connection["conn_type"], connection["host"]) == ("storekeeper", "http://127.0.0.1:20001")
    assert connection["extra"] == {
        "token_file": str(tmp_path / "secrets" / "control.token"),
        "query_page": "http://127.0.0.1:18101",
        "spark_ui": "",
    }


def test_settings_and_foreign_installations_are_not_handed_on() -> None:
    inherited = {
        "STOREKEEPER_MAX_DEAD_LETTER_SHARE": "0.05",
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "SPARK_HOME": "/opt/spark",
        "SPARK_CONF_DIR": "/etc/spark",
        "AWS_ACCESS_KEY_ID": "of the tables' store",
        "PYTHONPATH": "/elsewhere",
        "LANG": "C.UTF-8",
    }
    environment = child_environment(PlatformSettings.load(), inherited)
    assert "STOREKEEPER_MAX_DEAD_LETTER_SHARE" not in environment
    assert (environment["LANG"], environment["SPARK_CONF_DIR"]) == ("C.UTF-8", "/etc/spark")
    assert "AWS_ACCESS_KEY_ID" in environment
    assert not {"AIRFLOW__CORE__EXECUTOR", "SPARK_HOME", "PYTHONPATH"} & environment.keys()


def test_loopback_never_goes_through_a_proxy() -> None:
    environment = child_environment(PlatformSettings.load(), {"http_proxy": "http://proxy:3128", "no_proxy": ""})
    assert environment["no_proxy"] == environment["NO_PROXY"] == "127.0.0.1,localhost"


def test_java_home_wins_over_the_path() -> None:
    programs = str(Path(sys.executable).parent)
    for home, folders in (({"JAVA_HOME": "/opt/jdk"}, [programs, "/opt/jdk/bin", "/bin"]), ({}, [programs, "/bin"])):
        path = child_environment(PlatformSettings.load(), {"PATH": "/bin", **home})["PATH"]
        assert path.split(os.pathsep) == folders


def test_the_brokers_command_is_the_same_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a plan that somebody makes with another JAVA_HOME than the keeper's would restart the broker."""
    commands = []
    for home in ("/opt/jdk", "/usr/lib/jvm/other"):
        monkeypatch.setenv("JAVA_HOME", home)
        programs = Instance.of(PlatformSettings.load()).programs
        commands.append(next(program.command for program in programs if program.name == KAFKA))
    assert commands[0] == commands[1]
