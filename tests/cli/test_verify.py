"""The command `verify`: what it notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from storekeeper.cli.entry import app
from storekeeper.errors import RetriableError
from storekeeper.program import ExitCode
from storekeeper.verification import verify
from storekeeper.verification.check_verdict import CheckVerdict, last_verdict, verdict_folder


@pytest.mark.usefixtures("called_here")
def test_the_verdict_on_a_store_is_kept_if_the_next_one_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differs = CheckVerdict("verify", "rewards", False, ("copies differ",), 5)

    def check(store: str, *_: object, **__: object) -> CheckVerdict:
        if store != "rewards":
            raise RetriableError("no broker answers")
        return differs

    tmp_path.chmod(0o700)
    monkeypatch.setattr(verify, "verify_store", check)
    environment = {"STOREKEEPER_RUN_DIR": str(tmp_path)}
    done = CliRunner().invoke(app, ["verify", "rewards", "prices"], env=environment)
    assert done.exit_code == ExitCode.TRY_AGAIN, done.output
    assert last_verdict(verdict_folder(tmp_path, "verify", "rewards")) == differs
