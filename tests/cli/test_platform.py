"""What `up` and `supervise` say once everything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.cli import platform


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform that comes up at once, of a user whose home can't be written to."""

    def refuse(_: Path) -> None:
        raise OSError("read-only file system")

    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(
        "storekeeper.ops.apply.up", lambda *_, **__: SimpleNamespace(troubles=(), supervisor=None, password=None)
    )
    monkeypatch.setattr("storekeeper.ops.apply.check_no_other", lambda _: None)
    monkeypatch.setattr("storekeeper.run_dir.remember_started", refuse)
    monkeypatch.setattr("storekeeper.ops.supervisor.wait_in_foreground", lambda *_: None)


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(("command", "is_told"), [(platform.up, True), (platform.supervise, False)])
def test_a_service_has_no_home_to_write_to(
    command: Callable[[], None], capsys: pytest.CaptureFixture[str], *, is_told: bool
) -> None:
    command()
    assert ("commands in other folders won't find it" in capsys.readouterr().err) is is_told
