"""One platform: its settings, its run directory and the environment of its processes, belonging together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.environment import child_environment, inherited_environment
from deploy.layout import RunLayout
from deploy.programs import Program, platform_programs
from deploy.settings import PlatformSettings


@dataclass(frozen=True, slots=True)
class Instance:
    """A platform that runs or could run. Nothing is started by making one."""

    settings: PlatformSettings
    layout: RunLayout
    environment: Mapping[str, str]

    @property
    def programs(self) -> tuple[Program, ...]:
        """Its processes, in the order of starting."""
        return platform_programs(self.layout, self.settings, self.environment)

    @staticmethod
    def of(settings: PlatformSettings) -> Instance:
        """The platform that these settings describe."""
        return Instance(settings, RunLayout(settings.run_dir), child_environment(settings, inherited_environment()))
