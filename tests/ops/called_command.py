"""A command of the program in the tests' process: a process of its own would load everything anew."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import NoReturn

import pytest

from storekeeper.cli import entry
from storekeeper.ops.environment import inherited_environment
from tests.integration.platform_process import PlatformProcess

Call = Callable[..., "CompletedProcess[str]"]
"""Takes a platform and a command's words."""


def _no_platform(*_: object) -> NoReturn:
    pytest.fail("the command began to start a platform, and should have refused")


@pytest.fixture
def call(called_here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls a command as `PlatformProcess.call` does, and leaves signals, environment and folder as they were."""
    del called_here

    def called(platform: PlatformProcess, *words: str) -> CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name in inherited_environment().keys() - platform.environment.keys():
                patch.delenv(name)
            for name, value in platform.environment.items():
                patch.setenv(name, value)
            patch.chdir(platform.run_dir.parent)
            patch.setattr(signal, "signal", lambda *_: None)
            patch.setattr("storekeeper.ops.bring_up.start_supervisor", _no_platform)
            patch.setattr(sys, "argv", ["storekeeper", *words])
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                entry.main()
        shown = capsys.readouterr()
        return CompletedProcess(words, int(ended.value.code or 0), shown.out, shown.err)

    return called
