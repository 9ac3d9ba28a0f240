from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.ops.broker import format_command, server_properties


def test_java_reads_a_folder_of_any_name_as_it_is() -> None:
    text = server_properties(Path("/home/jürgen/a\\b 漢😀"), 1, 2, {})
    assert "log.dirs=/home/j\\u00fcrgen/a\\\\b \\u6f22\\ud83d\\ude00\n" in text
    assert text.isascii()


def test_a_folder_that_kafka_takes_for_two_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Kafka would take /a,b for several folders"):
        server_properties(Path("/a,b"), 1, 2, {})


def test_no_cluster_id_looks_like_an_option_of_kafkas_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([uuid.UUID(bytes=b"\xf8" * 16), uuid.UUID(bytes=b"\xfb" * 16), uuid.UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(made))
    command = format_command(["java"], Path("server.properties"))
    assert command[command.index("-t") + 1] == "AQEBAQEBAQEBAQEBAQEBAQ"
