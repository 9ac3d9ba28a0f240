"""One platform: its settings, its run directory, and the environment that its processes run in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import site_properties, ui_address
from storekeeper.configuration import parse_pairs
from storekeeper.node.settings import load_node_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.programs import Program, platform_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.settings_reference import is_setting
from storekeeper.run_dir import STARTED_WITH

PLATFORM_MARKER = "STOREKEEPER_PLATFORM"
"""Set to the run directory by the platform alone, for every process that it starts. Unlike `STOREKEEPER_RUN_DIR`,
which a user may export in a shell, it never marks a process that the platform did not start."""

_FOREIGN_PREFIXES = ("AIRFLOW", "SPARK_", "PYSPARK_", "PYTHON", "KAFKA_", "SUPERVISOR_")
"""Another installation's Airflow or Spark must not leak into ours, nor may interpreter options change it."""
_KEPT = frozenset({"SPARK_CONF_DIR"})
_LOOPBACK = "127.0.0.1,localhost"


def child_environment(settings: PlatformSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child process, from those of the caller.

    Settings are not among them: all processes read the file of those that the platform was started with. Nor is any
    secret: processes read secrets from the run directory.
    """
    base = {name: value for name, value in inherited.items() if not is_foreign(name) and not is_setting(name)}
    own = {
        "STOREKEEPER_RUN_DIR": str(settings.run_dir),
        PLATFORM_MARKER: str(settings.run_dir),
        "STOREKEEPER_CONFIG": str(settings.run_dir / STARTED_WITH),
        "PATH": _path(inherited),
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": _LOOPBACK,
        "no_proxy": _LOOPBACK,
    }
    return base | own | ({"SPARK_LOCAL_IP": "127.0.0.1"} if AppSettings().is_local else {})


def _path(inherited: Mapping[str, str]) -> str:
    """Our programs first, then the Java of JAVA_HOME, as it counts for Spark."""
    home = inherited.get("JAVA_HOME")
    java = [str(Path(home) / "bin")] if home else []
    return os.pathsep.join([str(Path(sys.executable).parent), *java, inherited.get("PATH", os.defpath)])


def airflow_environment(settings: PlatformSettings) -> dict[str, str]:
    """The variables of the embedded Airflow, beside those of every process."""
    return {
        "AIRFLOW_HOME": str(settings.run_dir / "airflow"),
        "AIRFLOW_CONN_STOREKEEPER_DEFAULT": _airflow_connection(settings),
        "SPT_NOENV": "1",  # its process titles would otherwise be written over the environment, and the mark
    }


def _airflow_connection(settings: PlatformSettings) -> str:
    """Airflow's connection to the control API of this platform. It names the file of the token, not the token."""
    extra = {
        "token_file": str(RunLayout(settings.run_dir).control_token),
        "query_page": next(iter(settings.node_urls.values()), ""),
        "spark_ui": ui_address({**site_properties(), **AppSettings().spark}),
    }
    return json.dumps({"conn_type": "storekeeper", "host": settings.control_url, "extra": extra})


def app_settings(settings: PlatformSettings) -> AppSettings:
    """The settings of the apps of a platform: its own broker is where the platform's port says."""
    return AppSettings.load(run_dir=settings.run_dir, kafka_bootstrap=settings.kafka_bootstrap)


def is_foreign(name: str) -> bool:
    """Whether a variable of the caller must not reach our processes."""
    return name.startswith(_FOREIGN_PREFIXES) and name not in _KEPT


def derived_settings(settings: PlatformSettings) -> dict[str, str]:
    """The settings of apps, nodes and jobs that follow from those of the platform."""
    derived = {
        **({"kafka_bootstrap": settings.kafka_bootstrap} if settings.starts_broker else {}),
        "peers": ",".join(f"{name}={url}" for name, url in (parse_pairs(settings.peers) | settings.node_urls).items()),
    }
    if "stores" not in load_node_settings().model_fields_set:
        from storekeeper.apps.registry import APPS, store_definitions  # noqa: PLC0415 (it loads all apps)
        from storekeeper.generations.catalog import numbered  # noqa: PLC0415
        from storekeeper.ops.platform_apps import removed_stores  # noqa: PLC0415

        app_settings, apps = AppSettings(), APPS.values()
        fixed = [numbered(app, app_settings.generation) for app in apps] if app_settings.fixes_generation else apps
        removed = [store.definition for store in removed_stores(settings.run_dir).values()]
        # In one order, whichever apps are configured: a node serves the same stores when an app is removed.
        derived["stores"] = ",".join(sorted(filter(None, [*store_definitions(fixed).split(","), *removed])))
    return derived


def inherited_environment() -> dict[str, str]:
    """The variables of this process, to be handed on."""
    return dict(os.environ)  # noqa: TID251 (handed on to children unread, not read as settings)


@dataclass(frozen=True, slots=True)
class Instance:
    """A platform that runs or could run. Nothing is started by making one."""

    settings: PlatformSettings
    layout: RunLayout
    environment: Mapping[str, str]

    @property
    def programs(self) -> tuple[Program, ...]:
        """Its processes, in the order of starting."""
        return platform_programs(self.layout, self.settings)

    @staticmethod
    def of(settings: PlatformSettings) -> Instance:
        """The platform that these settings describe."""
        return Instance(settings, RunLayout(settings.run_dir), child_environment(settings, inherited_environment()))
