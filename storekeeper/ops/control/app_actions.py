"""The actions of `storekeeper app`: one at a time for an app. The command does them, and the control process.

Those that change the app's size or code end as they began if they fail.
"""

from __future__ import annotations

import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from storekeeper.apps.settings import ClientSettings
from storekeeper.engine.runtime.lease import job_held
from storekeeper.engine.runtime.scale import AppScale, read_scale, write_scale
from storekeeper.errors import ConfigurationError, InvalidArgumentError, StateError
from storekeeper.ops.control.app_control import AppControl, AppFailedError, AppTimeoutError, app_control
from storekeeper.ops.control.asked import asked
from storekeeper.ops.control.problems import JobCancelledError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.programs import Kind, kind_of
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


@dataclass(frozen=True, slots=True)
class AppChanges:
    """Changes an app, and restarts it."""

    app: str
    control: AppControl
    scale_file: Path
    check: Callable[[], object]

    def scale(self, wanted: Mapping[str, int | None]) -> bool:
        """Sets the app's size for good, and restarts it if that changes anything. Returns whether it did.

        The size is written while the app doesn't run. So an app that runs has the size that is written down, and a
        retry after a kill only has to start it. None leaves a field as it is, 0 unsets it.

        Raises:
            InvalidArgumentError: a value can't be used, or none is given; nothing was changed.
            AppFailedError: it didn't come up with the new size, and was restarted with the old one.
            OSError: the size can't be written; the app was started as it was.
        """
        before = read_scale(self.scale_file)
        after = scale_after(before, wanted)
        if after == before:
            return self.control.start()
        try:
            self.control.drain()
            try:
                write_scale(self.scale_file, after)
            except OSError:
                self.control.start()
                raise
            # Somebody may have started it before the size was there.
            return self.control.start() or self.control.restart()
        except (AppFailedError, AppTimeoutError) as error:
            write_scale(self.scale_file, before)
            raise self._gone_back("scale", error) from error

    def upgrade(self) -> bool:
        """Checks the installed code while the app runs, drains it, starts it, and waits until it reads on.

        Raises:
            ConfigurationError: the code can't take over; the app was not touched.
            AppFailedError: it didn't come up, and was restarted once more.
        """
        try:
            self.check()
        except StateError as error:
            msg = f"{self.app} runs on as it was: the code that is installed can't take over. {error}"
            raise ConfigurationError(msg) from error
        try:
            return self.control.upgrade()
        except (AppFailedError, AppTimeoutError) as error:
            raise self._gone_back("upgrade", error) from error

    def _gone_back(self, action: str, error: StateError) -> AppFailedError:
        try:
            self.control.restart()
            now = "It runs again as before."
        except StateError as again:
            now = str(again)
        return AppFailedError(f"{action} failed: {error}\nThe app was restarted. {now}")


def scale_after(before: AppScale, wanted: Mapping[str, int | None]) -> AppScale:
    """The size after a change.

    Raises:
        InvalidArgumentError: a value can't be used, or none is given.
    """
    changes = {name: value or None for name, value in wanted.items() if value is not None}
    if not changes:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in AppScale.model_fields)
        raise InvalidArgumentError(f"`scale` needs at least one of {names}: nothing was changed")
    try:
        return AppScale.model_validate(before.model_dump() | changes)
    except ValidationError as error:
        first = error.errors()[0]
        msg = f"`{first['loc'][0]}` can't be used ({first['msg']}): nothing was changed"
        raise InvalidArgumentError(msg) from error


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
