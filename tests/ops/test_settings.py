"""The platform's settings."""

from __future__ import annotations

from pathlib import Path

import pydantic
import pytest

from harness.project import ROOT
from storekeeper.errors import InvalidNameError
from storekeeper.ops.settings import PlatformSettings


def test_the_defaults_are_the_documented_ones() -> None:
    settings = PlatformSettings.load()
    assert settings.kafka_bootstrap == "127.0.0.1:19092"
    assert settings.airflow_url == ""
    assert PlatformSettings.load(airflow="embedded").airflow_url == "http://127.0.0.1:18080"
    assert PlatformSettings.load(airflow="https://af.example.com/").airflow_url == "https://af.example.com"
    assert settings.node_urls == {"a": "http://127.0.0.1:18101", "b": "http://127.0.0.1:18102"}
    assert settings.jars_dir == ROOT / ".jars"


def test_the_environment_changes_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", "here")
    monkeypatch.setenv("STOREKEEPER_NODE_NAMES", "x, y,z")
    monkeypatch.setenv("STOREKEEPER_NODE_PORT", "20000")
    settings = PlatformSettings.load()
    assert settings.run_dir == tmp_path / "here"
    assert settings.node_ports == {"x": 20000, "y": 20001, "z": 20002}


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_KAFKA_PORT", "20000")
    monkeypatch.setenv("STOREKEEPER_AIRFLOW_PORT", "20001")
    settings = PlatformSettings.load(kafka_port=20002)
    assert (settings.kafka_port, settings.airflow_port) == (20002, 20001)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka_port": 0},
        {"kafka_port": 65536},
        {"node_names": "a,a"},
        {"node_names": "a,../b"},
        {"airflow": "maybe"},
        {"airflow": "airflow.example.com"},
        {"control_host": "localhost"},
        {"topic_partitions": 0},
    ],
)
def test_what_can_not_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((pydantic.ValidationError, InvalidNameError)):
        PlatformSettings.load(**wrong)


def test_every_port_is_named_by_the_setting_that_moves_it() -> None:
    ports = PlatformSettings.load(node_names="a,b,c", airflow="embedded").ports
    assert ports["`kafka_port`"] == 19092
    assert sorted(ports.values()) == [18080, 18091, 18101, 18102, 18103, 19001, 19092, 19093]
    assert 18080 not in PlatformSettings.load().ports.values(), "it may be somebody else's"


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in PlatformSettings.model_fields.items() if not field.description] == []
