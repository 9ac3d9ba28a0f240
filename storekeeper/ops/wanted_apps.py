"""Which apps a platform runs, and which of them in the shared driver."""

from __future__ import annotations

from collections.abc import Mapping

from storekeeper.apps.registry import KEPT_APPS, ON_DEMAND_APPS, USER_APPS
from storekeeper.apps.spec import AppSpec
from storekeeper.ops.settings import PlatformSettings


def kept_apps(settings: PlatformSettings) -> Mapping[str, AppSpec]:
    """The apps that have a process each for as long as the platform runs, by name."""
    return USER_APPS if settings.apps == "own" else KEPT_APPS


def shared_apps(settings: PlatformSettings) -> Mapping[str, AppSpec]:
    """The apps of the shared driver, by name."""
    return ON_DEMAND_APPS if settings.apps == "all" else {}


def wanted_apps(settings: PlatformSettings) -> Mapping[str, AppSpec]:
    """All apps that the platform runs, by name."""
    return {**kept_apps(settings), **shared_apps(settings)}
