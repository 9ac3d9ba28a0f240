"""The controller of an app's generations, as the platform's settings and the broker make it."""

from __future__ import annotations

import time
from functools import partial

from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.catalog import check_changeable, check_not_fixed
from storekeeper.generations.changes.compare import ComparisonVerdict
from storekeeper.generations.comparison import compare_generations
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation
from storekeeper.node.cluster.alias_topic import publish_alias
from storekeeper.node.security.cluster_secret import load_cluster_secret


def controller_of(
    app: str, timeout_s: float = 0, max_behind: int = 0, *, accepts_differences: bool = False
) -> GenerationController:
    """The controller of an app's generations on this platform.

    Raises:
        ConfigurationError: there is no such app, or it can't have generations.
        GenerationRefusedError: a setting says which generation runs.
    """
    spec = app_named(app)
    check_changeable(spec)
    settings = AppSettings.of_platform()
    check_not_fixed(settings)
    secret = load_cluster_secret(settings.cluster_secret_file)
    return GenerationController(
        spec,
        spec.settings(settings),
        SystemClock(),
        time.sleep,
        partial(publish_alias, settings.kafka, secret),
        partial(_compared, settings),
        Topics(settings.kafka).committed_end,
        timeout_s=timeout_s,
        max_behind=max_behind,
        accepts_differences=accepts_differences,
    )


def _compared(settings: AppSettings, source: Generation, target: Generation) -> ComparisonVerdict:
    return compare_generations(settings.kafka, settings.run_dir / "generations", source, target)
