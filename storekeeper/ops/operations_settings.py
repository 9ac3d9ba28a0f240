"""The settings of commands that start and stop apps."""

from __future__ import annotations

from pydantic import Field

from storekeeper.apps.settings import ClientSettings


class OperationsSettings(ClientSettings):
    """How long to wait for apps. Each field is `STOREKEEPER_<NAME>`."""

    start_timeout_s: int = Field(
        240,
        ge=10,
        description="How long the platform may take to become healthy; an app has three quarters of it.",
    )

    @property
    def app_start_timeout_s(self) -> float:
        """How long an app may take until it runs."""
        return 0.75 * self.start_timeout_s
