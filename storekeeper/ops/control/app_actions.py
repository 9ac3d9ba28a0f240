"""The actions of `storekeeper app`: one at a time for an app. The command does them, and the control process."""

from __future__ import annotations

import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from storekeeper.apps.settings import ClientSettings
from storekeeper.engine.runtime.lease import job_held
from storekeeper.engine.runtime.scale import AppScale
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.ops.control.app_changes import AppChanges
from storekeeper.ops.control.app_control import app_control
from storekeeper.ops.control.asked import asked
from storekeeper.ops.control.jobs import JobCancelledError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.program_names import Kind, kind_of
from storekeeper.ops.supervisor_rpc import SupervisorRpc

ACTIONS = ("start", "stop", "restart", "scale", "upgrade")


def supervisor_of(settings: ClientSettings) -> SupervisorRpc:
    """The supervisor of a run directory.

    Raises:
        SupervisorUnreachableError: none was ever started there.
    """
    return SupervisorRpc.from_secret(RunLayout(settings.run_dir).supervisor_secret)


def change_app(
    name: str,
    action: str,
    sizes: Mapping[str, int | None],
    *,
    check: Callable[[], object],
    pause: Callable[[float], object] = time.sleep,
) -> dict[str, Any]:
    """Does an action, and waits until the app has followed. Repeating one is harmless.

    Args:
        name: the app, or the process of several.
        action: one of `ACTIONS`.
        sizes: for `scale`: fields of `AppScale`.
        check: for `upgrade`: raises if the installed code can't run it.
        pause: waits between two looks at the app.

    Returns:
        What the command prints.

    Raises:
        ConfigurationError: the platform has no such app, or it can't run.
        AppTimeoutError: the app didn't follow in time.
    """
    settings = ClientSettings.load()
    supervisor = supervisor_of(settings)
    known = [program for program in supervisor.names() if kind_of(program) is Kind.APP]
    if name not in known:
        raise ConfigurationError(f"{name} is no app of this platform: name one of {', '.join(known) or 'none'}")
    control = app_control(name, settings, supervisor, pause)
    changes = AppChanges(name, control, settings.scale_file(name), check)
    actions: Mapping[str, Callable[[], bool]] = {
        **{each: getattr(control, each) for each in ("start", "stop", "restart")},
        "scale": partial(changes.scale, sizes),
        "upgrade": changes.upgrade,
    }
    with job_held(name, "change", settings, wait=pause):
        changed = actions[action]()
    beat = control.heartbeat()
    return {
        "app": name,
        "action": action,
        "changed": changed,
        "pid": None if beat is None else beat.pid,
        "state": None if beat is None else str(beat.state),
    }


def change_app_by_words(words: Sequence[str], cancelled: threading.Event, log: Path) -> dict[str, Any]:
    """The same for the words of a command line, `app ACTION NAME [OPTIONS]`, in a thread of the control process.
    `cancelled` ends it at its next look at the app. `log` takes what the check of the installed code writes, which is a
    process of its own.

    Raises:
        InvalidArgumentError: the words are no such command.
        JobCancelledError: it was cancelled.
        ConfigurationError: as `change_app` does, and so on.
    """
    parsed = _parser().parse_args(words)
    sizes = {name: getattr(parsed, name) for name in AppScale.model_fields}

    def pause(seconds: float) -> None:
        if cancelled.wait(seconds):
            msg = f"{parsed.action} of {parsed.name} was cancelled: what was begun goes on, see `storekeeper status`"
            raise JobCancelledError(msg)

    def check() -> dict[str, Any]:
        return asked("app", "upgrade", parsed.name, "--dry-run", log=log, pause=pause)

    if parsed.dry_run:
        if parsed.action != "upgrade":
            raise InvalidArgumentError("--dry-run goes with `upgrade` alone")
        return check()
    return change_app(parsed.name, parsed.action, sizes, check=check, pause=pause)


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(message)


def _parser() -> ArgumentParser:
    parser = _Parser("storekeeper", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("command", choices=("app",))
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("name")
    for name in AppScale.model_fields:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=None)
    parser.add_argument("--dry-run", action="store_true")
    return parser
