"""Settings of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.node.settings import NodeSettings, load_node_settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in NodeSettings.model_fields:
        monkeypatch.delenv(f"STOREKEEPER_{field.upper()}", raising=False)


def test_defaults_serve_the_platform() -> None:
    settings = load_node_settings()
    assert settings.definitions == {}
    assert settings.peer_addresses == {"a": "http://127.0.0.1:18101", "b": "http://127.0.0.1:18102"}
    assert (settings.port_of("a"), settings.port_of("b")) == (18101, 18102)
    assert settings.run_dir == Path.cwd() / ".run"


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in NodeSettings.model_fields.items() if not field.description] == []


def test_a_port_of_its_own_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_LISTEN_PORT", "5000")
    assert load_node_settings().port_of("a") == 5000


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("PEER_NETWORKS", "0.0.0.0/0", "not a rule"),
        ("LISTEN_HOST", "localhost", "not an IP address"),
        ("LISTEN_PORT", "70000", "65535"),
        ("REPLICAS", "-1", "STOREKEEPER_REPLICAS"),
        ("BACKEND", "oracle", "STOREKEEPER_BACKEND"),
        ("STORES", "rewards", "name=topic"),
        ("STORES", "rewards=", "name=topic"),
        ("STORES", "a=t,a=u", "twice"),
        ("STORES", "a/b=t", "can't be a name"),
        ("STORES", "a=t/../u", "can't be a name"),
        ("PEERS", "a=ftp://h:1", "http://host:port"),
        ("PEERS", "a=http://h", "http://host:port"),
        ("PEERS", "a=http://user@h:1", "http://host:port"),
        ("PEERS", "a=http://h:1/path", "after the port"),
    ],
)
def test_what_cannot_work_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"STOREKEEPER_{name}", value)
    with pytest.raises(ConfigurationError, match=told) as raised:
        load_node_settings()
    assert str(raised.value).startswith(f"The variable STOREKEEPER_{name} can't be used (")


def test_a_node_must_be_among_the_peers() -> None:
    with pytest.raises(ConfigurationError, match="not among `peers`"):
        load_node_settings().port_of("c")
