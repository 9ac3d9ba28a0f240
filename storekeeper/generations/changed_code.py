"""Whether an app's code is the one that it last started with. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterable

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.code_digest import code_digest
from storekeeper.generations.named import named_generations


def changed_code(apps: Iterable[AppSpec], settings: AppSettings) -> list[str]:
    """The apps whose code is another one than at their last start, by name."""
    return [app.name for app in apps if _has_changed(app, settings)]


def change_notice(app: str) -> str:
    """What follows from a change of an app's code, in a sentence."""
    return (
        f"the code of {app} has changed since its last start: new rows will follow it, and the rows that are there "
        "follow the old one. If its logic is another one, compute all rows again: docs/how-to/backfill.md"
    )


def _has_changed(app: AppSpec, settings: AppSettings) -> bool:
    _, of_generation = named_generations(app, settings)[0]
    claim = CheckpointOwner.read(of_generation.checkpoint_dir(app.name))
    now = code_digest(app)
    return claim is not None and None not in {claim.code, now} and claim.code != now
