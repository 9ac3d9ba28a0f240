"""The generations of an app that a configuration names: those that its processes run. Free of Spark."""

from __future__ import annotations

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.generations.catalog import numbered, settings_of, spec_of
from storekeeper.generations.journal import FIRST_GENERATION, GenerationState, JournalFile

_THERE = frozenset({
    *(GenerationState.SEEDED, GenerationState.STARTED, GenerationState.VERIFIED),
    *(GenerationState.LIVE, GenerationState.STANDBY),
})  # fmt: skip
"""States of generations that have topics."""


def is_fixed(settings: AppSettings) -> bool:
    """Whether the setting `generation` says which generation all apps run. Journals don't count then."""
    return "generation" in settings.model_fields_set


def named_generations(spec: AppSpec, settings: AppSettings) -> tuple[tuple[AppSpec, AppSettings], ...]:
    """An app in each generation that has topics, with its settings: the live one first.

    It is the one that the setting `generation` fixes; else those of the journal; without a journal, the first.

    Raises:
        GenerationRefusedError: the journal is damaged, or names what the installed code doesn't have.
    """
    if is_fixed(settings):
        return ((numbered(spec, settings.generation), settings),)
    journal = JournalFile(settings.durable, spec.name).read()
    if journal is None:
        return ((spec, settings.model_copy(update={"generation": FIRST_GENERATION})),)
    there = sorted(
        (one for one in journal.generations.values() if one.state in _THERE),
        key=lambda one: (one.number != journal.live, one.number),
    )
    return tuple((spec_of(spec, one), settings_of(settings, one)) for one in there)
