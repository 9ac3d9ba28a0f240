"""From an app's spec and settings to what its tasks must know."""

from __future__ import annotations

from collections.abc import Mapping

from spark_apps.processor.task import TaskPlan
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.names import dead_letter_topic

# Few due times are few rows of timers, and a moment more in a store harms nothing.
_TIMER_STEP_MS = 60_000


def task_plan(spec: AppSpec, settings: AppSettings, partitions: Mapping[str, int]) -> TaskPlan:
    """The plan of an app's tasks. `partitions` tells how many each of its changelog topics has."""
    sources, letters = spec.sources(settings), spec.dead_letters(settings)
    late = f"{spec.name}-late"
    return TaskPlan(
        app=spec.name,
        sources=sources,
        changelogs={store.name: store.changelog_topic for store in spec.stores},
        partitions=partitions,
        dead_letters={topic: dead_letter_topic(topic) for topic in sources if dead_letter_topic(topic) in letters},
        late_store=late if any(store.name == late for store in spec.stores) else None,
        max_ahead_ms=settings.max_ahead_ms,
        timer_step_ms=_TIMER_STEP_MS,
    )
