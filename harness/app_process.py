"""Real app processes for tests, each with its settings, its log and its heartbeat."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import adjusted
from harness.waiting import eventually
from storekeeper.engine.runtime.heartbeat import Heartbeat, read_heartbeat

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_S = 240
_QUICK = {"storekeeper.engine.runtime.heartbeat_writer:INTERVAL_S": 0.2}


@dataclass(slots=True)
class AppProcesses:
    """Starts processes of apps and jobs on one run directory and broker; ends what is left of them in `stop`."""

    run_dir: Path
    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = _PATIENCE_S
    constants: dict[str, object] = field(default_factory=dict)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, app: str, **settings: str) -> AppProcess:
        """Starts an app as supervisor does."""
        return self._started(app, ["storekeeper.cli.entry", "run", app], settings)

    def start_crashing(self, app: str, after_batch: int, **settings: str) -> AppProcess:
        """Starts an app that kills itself between writing a batch and committing it."""
        return self._started(app, ["harness.crashing_app", app, str(after_batch)], settings)

    def start_module(self, app: str, module: str, *arguments: str, **settings: str) -> AppProcess:
        """Starts another module that runs the app in its own way."""
        return self._started(app, [module, *arguments], settings)

    def start_next(self, app: str, **settings: str) -> AppProcess:
        """Starts the process of the generation that is not live."""
        return self._started(f"{app}-next", ["storekeeper.cli.entry", "run", "--next", app], settings)

    def run_dying(self, place: str, *arguments: str) -> int:
        """Runs a command that is killed at a place (see `dying_step`), or ends before it; its exit code."""
        command = self._command(["harness.dying_step", place, *arguments], {})
        with (self.run_dir / "steps.log").open("ab") as log:
            done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False, timeout=_PATIENCE_S)
        return done.returncode

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `storekeeper` to its end."""
        return self.run_module("storekeeper.cli.entry", *arguments, **settings)

    def run_module(self, module: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs a module to its end."""
        command = self._command([module, *arguments], settings)
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=self.patience_s)

    def stop(self) -> None:
        """Kills what is still running."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _started(self, app: str, module: list[str], settings: Mapping[str, str]) -> AppProcess:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        with (self.run_dir / f"{app}.log").open("ab") as log:
            process = subprocess.Popen(self._command(module, settings), cwd=ROOT, stdout=log, stderr=log)
        self._running.append(process)
        return AppProcess(app, process, self.run_dir, self.patience_s)

    def _command(self, module: list[str], settings: Mapping[str, str]) -> list[str]:
        chosen = {
            "STOREKEEPER_RUN_DIR": str(self.run_dir),
            "STOREKEEPER_KAFKA_BOOTSTRAP": self.bootstrap,
            **{f"STOREKEEPER_{name.upper()}": value for name, value in {**self.settings, **settings}.items()},
        }
        variables = (f"{name}={value}" for name, value in chosen.items())
        return ["env", *variables, sys.executable, *adjusted.command(_QUICK | self.constants, module[0], module[1:])]


@dataclass(frozen=True, slots=True)
class AppProcess:
    """One process of an app."""

    app: str
    process: subprocess.Popen[bytes]
    run_dir: Path
    patience_s: float = _PATIENCE_S

    @property
    def heartbeat(self) -> Heartbeat | None:
        """Its last beat; None before the first."""
        beat = read_heartbeat(self.run_dir / "heartbeats" / f"{self.app}.json")
        return beat if beat is not None and beat.pid == self.process.pid else None

    def await_beat(self, reached: Callable[[Heartbeat], bool], what: str) -> Heartbeat:
        """The first beat for which `reached` holds."""

        def found() -> Heartbeat | None:
            assert self.process.poll() is None, f"{self.app} ended with {self.process.returncode}:\n{self.log_tail()}"
            beat = self.heartbeat
            return beat if beat is not None and reached(beat) else None

        return eventually(found, self.patience_s, f"{self.app}: {what}")

    def await_caught_up(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Returns once everything up to `end` is committed; of topics that `end` does not name, whatever."""
        self.await_beat(lambda beat: end.items() <= beat.offsets.items(), f"caught up with {end}")

    def await_exit(self) -> int:
        """Its exit code."""
        return self.process.wait(self.patience_s)

    def terminate(self) -> int:
        """Stops it as supervisor does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.await_exit()

    def kill_jvm(self) -> None:
        """Kills its JVM alone."""
        beat = self.heartbeat
        assert beat is not None
        assert beat.jvm_pid is not None
        os.kill(beat.jvm_pid, signal.SIGKILL)

    def log_tail(self) -> str:
        """The end of its log."""
        return (self.run_dir / f"{self.app}.log").read_text(errors="replace")[-3000:]
