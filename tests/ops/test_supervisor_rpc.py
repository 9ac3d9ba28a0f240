from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.supervisor_rpc import SupervisorRpc
from tests.ops.control.supervised import Supervised


def test_a_process_is_started_described_and_stopped_once(supervised: Supervised) -> None:
    rpc = supervised.rpc
    assert rpc.process("pos").state == "STOPPED"
    assert rpc.log_end("pos") == ""
    assert rpc.start("pos") is True
    supervised.await_state("pos", "RUNNING")
    found = rpc.process("pos")
    assert found.pid > 0
    assert found.started_at_ms > 1_600_000_000_000
    assert rpc.start("pos") is False
    assert rpc.stop("pos") is True
    supervised.await_state("pos", "STOPPED")
    assert rpc.stop("pos") is False


def test_the_end_of_a_log_begins_with_a_whole_line(supervised: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    (supervised.run_dir / "pos.log").write_text("first line\nsecond line\n")
    assert supervised.rpc.log_end("pos") == "first line\nsecond line"
    monkeypatch.setattr("storekeeper.ops.supervisor_rpc._LOG_BYTES", 14)
    assert supervised.rpc.log_end("pos") == "second line"


def test_an_unknown_process_is_refused(supervised: Supervised) -> None:
    with pytest.raises(SupervisorUnreachableError, match=r"refused getProcessInfo.*BAD_NAME"):
        supervised.rpc.process("nobody")


def test_the_password_is_in_no_message(supervised: Supervised) -> None:
    wrong = SupervisorRpc("http://127.0.0.1:1", "toys", supervised.password, timeout_s=1)
    with pytest.raises(SupervisorUnreachableError, match="doesn't answer") as caught:
        wrong.process("pos")
    assert supervised.password not in repr(caught.getrepr(style="long"))
    intruder = SupervisorRpc.from_secret(supervised.run_dir / "secrets" / "supervisor.json", timeout_s=1)
    assert intruder.process("pos").state == "STOPPED"


def test_missing_credentials_say_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(SupervisorUnreachableError, match="storekeeper up"):
        SupervisorRpc.from_secret(tmp_path / "supervisor.json", timeout_s=1)
