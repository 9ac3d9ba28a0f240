from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from storekeeper.ops.broker import format_command


def test_no_cluster_id_looks_like_an_option_of_kafkas_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([uuid.UUID(bytes=b"\xf8" * 16), uuid.UUID(bytes=b"\xfb" * 16), uuid.UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(made))
    command = format_command(["java"], Path("server.properties"))
    assert command[command.index("-t") + 1] == "AQEBAQEBAQEBAQEBAQEBAQ"
