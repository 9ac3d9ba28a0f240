"""What a platform is, and what the configuration says that it is to be, for a plan of the steps between them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from storekeeper.apps.registry import APPS, DRIVERS, driver_of
from storekeeper.configuration import parse_pairs, read_file
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Verdict
from storekeeper.generations.planning.upgrade_check import changes_of, what_breaks
from storekeeper.generations.running_code import changed_code
from storekeeper.ops.effective import Effective, effective
from storekeeper.ops.environment import Instance, app_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.platform_apps import known_stores
from storekeeper.ops.programs import Kind, desired_programs, kind_of, stopped_programs
from storekeeper.ops.settings_reference import Value
from storekeeper.ops.steps import Code, Platform, Process, Step, steps
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc

_NODE = "node-"


def planned(instance: Instance, client: SupervisorRpc, running: Description) -> tuple[Step, ...]:
    """The steps from a platform that runs to what the configuration says."""
    wanted = effective(instance.settings)
    changes = {name: one.setting.change for name, one in wanted.items() if name != "run_dir"}
    actual = actual_platform(instance.layout, client.processes(), wanted)
    return steps(actual, desired_platform(instance, wanted), changes, code_of(instance, running))


def actual_platform(layout: RunLayout, infos: Iterable[ProcessInfo], known: Mapping[str, Effective]) -> Platform:
    """The platform as it is."""
    settings = read_file(layout.started_with) if layout.started_with.is_file() else {}
    apps: dict[str, tuple[str, ...]] = {}
    for name, store in known_stores(layout.root).items():
        apps[store.app] = (*apps.get(store.app, ()), name)
    return Platform({info.name: _actual_process(layout, info, known) for info in infos}, _whole(settings, known), apps)


def _actual_process(layout: RunLayout, info: ProcessInfo, known: Mapping[str, Effective]) -> Process:
    command, settings = started_with(layout, info.name)
    whole = None if settings is None else _whole(settings, known)
    return Process(kind_of(info.name), info.is_wanted, command, whole, _address(info.name, whole))


def started_with(layout: RunLayout, program: str) -> tuple[tuple[str, ...] | None, Mapping[str, Any] | None]:
    """The command and the settings of a process's last start; None if they are not known."""
    try:
        record = json.loads(layout.start_record(program).read_bytes())
        return tuple(record["command"]), tomllib.loads(record["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def _whole(settings: Mapping[str, Any], known: Mapping[str, Effective]) -> dict[str, Value]:
    """The values of a file, and the defaults of the settings that it leaves out."""
    return {name: settings.get(name, one.setting.default_value) for name, one in known.items() if name != "run_dir"}


def _address(program: str, settings: Mapping[str, Value] | None) -> str | None:
    if settings is None or not program.startswith(_NODE):
        return None
    return parse_pairs(str(settings.get("peers") or "")).get(program.removeprefix(_NODE))


def desired_platform(instance: Instance, wanted: Mapping[str, Effective]) -> Platform:
    """The platform as the configuration says."""
    settings = {name: one.value for name, one in wanted.items() if name != "run_dir"}
    programs = {program.name: program for program in instance.programs}
    own = app_settings(instance.settings)
    running = desired_programs([*programs], own, DRIVERS).keys() - stopped_programs(instance.layout)
    processes = {
        name: Process(
            kind_of(name),
            name in running or kind_of(name) is not Kind.APP,
            program.paced,
            settings,
            _address(name, settings),
        )
        for name, program in programs.items()
    }
    stores = {
        driver: tuple(store.name for app in apps for store in APPS[app].stores) for driver, apps in DRIVERS.items()
    }
    return Platform(processes, settings, stores)


def code_of(instance: Instance, running: Description) -> Code:
    """What the installed code means for the processes of the apps."""
    changed = changed_code(APPS.values(), app_settings(instance.settings))
    blocked: dict[str, str] = {}
    generations: dict[str, str] = {}
    for app in APPS.values():
        changes = changes_of(app, running)
        if broken := what_breaks(app, changes):
            program = driver_of(app.name)
            blocked[program] = f"{blocked[program]}; {broken}" if program in blocked else broken
        for change in changes:
            if change.verdict is Verdict.MIGRATE and change.conf:
                generations[change.store] = f"DAG `migrate_state` with `{json.dumps(change.conf)}`"
    return Code(frozenset(map(driver_of, changed)), blocked, generations)
