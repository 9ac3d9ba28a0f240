"""The apps of this project by name: those of the tills, and the smaller ones, which share a driver."""

from __future__ import annotations

from storekeeper.apps.registry import APPS, DRIVERS, SHARED_DRIVER

SYSTEM_APPS = {name: APPS[name] for name in DRIVERS[SHARED_DRIVER]}
TILL_APPS = {name: app for name, app in APPS.items() if name not in SYSTEM_APPS}
