"""Differences between the running platform and the current settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass

from deploy.effective import Effective, effective, shown
from deploy.instance import Instance
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.settings_reference import Setting, Value
from deploy.supervisor import supervisor_conf
from deploy.supervisor_rpc import SupervisorCredentials
from state.configuration import LIVE, read_file


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting whose value differs from the one that the platform was started with."""

    setting: Setting
    old: Value
    new: Value

    @property
    def is_live(self) -> bool:
        """Whether a running platform can take the new value."""
        return self.setting.change == LIVE

    def __str__(self) -> str:
        change = "" if self.is_live else f" ({self.setting.change})"
        return f"{self.setting.name}: {shown(self.old)} -> {shown(self.new)}{change}"


def differences(layout: RunLayout, found: Mapping[str, Effective]) -> list[Difference]:
    """The settings that the platform in a run directory was started with other values of."""
    started_with = read_file(layout.started_with) if layout.started_with.is_file() else {}
    return [
        Difference(one.setting, old, one.value)
        for name, one in sorted(found.items())
        if name != "run_dir" and (old := started_with.get(name, one.setting.default_value)) != one.value
    ]


def other_programs(instance: Instance) -> list[str]:
    """The programs that a start would give another configuration. With the same settings, another version has these."""
    conf = instance.layout.supervisor_conf
    credentials = SupervisorCredentials.read(instance.layout.supervisor_secret)
    found = _sections(conf.read_text("utf-8") if conf.exists() else "")
    sought = _sections(supervisor_conf(instance.layout, instance.settings, credentials, instance.programs))
    names = sorted(name for name in {*found, *sought} if found.get(name) != sought.get(name))
    return [name.removeprefix("program:") for name in names]


def effective_lines(settings: PlatformSettings) -> Iterator[str]:
    """A table: name, value, source, and the value of the running platform where it differs."""
    layout, found = RunLayout(settings.run_dir), effective(settings)
    running = differences(layout, found) if layout.started_with.is_file() else []
    other = {one.setting.name: f"running with {shown(one.old)}" for one in running}
    rows = [(name, shown(one.value), one.source, other.get(name, "")) for name, one in found.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()


def _sections(text: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    return {name: dict(section) for name, section in parser.items()}
