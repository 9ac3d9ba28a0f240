"""Changes of one app that end as they began if they fail: another size, other code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from storekeeper.engine.runtime.scale import AppScale, read_scale, write_scale
from storekeeper.errors import ConfigurationError, InvalidArgumentError, StateError
from storekeeper.ops.control.app_control import AppControl, AppFailedError, AppTimeoutError


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
