"""The settings of commands that start, stop and watch apps."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from storekeeper.apps.settings import ClientSettings
from storekeeper.configuration import counted


class OperationsSettings(ClientSettings):
    """Timeouts and limits for starting, watching and stopping apps. Each field is `STOREKEEPER_<NAME>`."""

    start_timeout_s: int = Field(
        240,
        ge=10,
        description="How long the platform may take to become healthy; an app has three quarters of it.",
    )
    watch_stale_s: float = Field(30, gt=0, description="A heartbeat older than this is stale.")
    watch_progress_s: float = Field(300, gt=0, description="Input may wait this long without a batch being committed.")
    watch_restarts: int = counted(
        3, "restarts", "Restarts within half an hour before the watcher raises an alert instead.", least=0
    )

    @property
    def app_start_timeout_s(self) -> float:
        """How long an app may take until it runs."""
        return 0.75 * self.start_timeout_s

    def watch_history_file(self, app: str) -> Path:
        """The file with the watcher's history of an app."""
        return self.run_dir / "watch" / f"{app}.json"
