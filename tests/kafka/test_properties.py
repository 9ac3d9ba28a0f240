"""The file with the properties of Kafka's clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.clients import new_admin, new_consumer, new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.kafka.properties import read_properties

PASSWORD = "se=cret#'}"


def write(folder: Path, text: str) -> Path:
    path = folder / "kafka.properties"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_lines_are_names_and_values(tmp_path: Path) -> None:
    text = (
        f"# a comment\n\nsecurity.protocol = SASL_SSL\n  # another\nsasl.password={PASSWORD}\nssl.ca.location=ca.pem\n"
    )
    assert read_properties(write(tmp_path, text)) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("security.protocol", "is not a line of the form name=value"),
        ("security.protocol=", "is not a line of the form name=value"),
        ("sasl.password=a ", "ends with a space"),
        ("bootstrap.servers=a:9092", "set bootstrap.servers in the setting kafka_bootstrap"),
        ("isolation.level=read_uncommitted", "Storekeeper sets it for each client"),
        ("plugin.library.paths=/tmp/x.so", "can't be set"),
    ],
)
def test_other_lines_are_refused_with_their_place_and_without_their_value(
    tmp_path: Path, line: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        read_properties(write(tmp_path, f"\n{line}\n"))
    assert "kafka.properties:2" in str(refused.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "security.protocol=SSL\n")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_properties(path)
    path.unlink()
    with pytest.raises(ConfigurationError, match="correct `kafka_properties`"):
        read_properties(path)


def test_every_client_refuses_a_property_that_there_is_not(tmp_path: Path) -> None:
    kafka = Kafka("127.0.0.1:1", write(tmp_path, "sasl.usrname=x\n"))
    made: tuple[Callable[[], object], ...] = (
        lambda: new_admin(kafka),
        lambda: new_producer(kafka, {}),
        lambda: new_consumer(kafka, "x", {}),
    )
    for make in made:
        with pytest.raises(ConfigurationError, match=r'kafka.properties can\'t be used .*"sasl.usrname"'):
            make()


def test_the_group_that_a_reader_must_name_begins_with_the_clusters_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.kafka.clients.Consumer", lambda settings: settings)
    found: Any = new_consumer(Kafka("b:1", cluster="till-team.query"), "range", {})
    assert found["group.id"] == "till-team.query-range"
