"""Which code an app's running process has: that of its start. Free of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.code_digest import code_digest
from storekeeper.engine.runtime.heartbeat import LIVE_STATES, read_heartbeat
from storekeeper.generations.desired_state import Role
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.live import named_generations


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


def check_known(app: str, migrations: Sequence[str], settings: AppSettings) -> None:
    """Checks that the app's live process, which will run the next generation, has the code of its migrations.

    Passes if that process isn't running. A migration that is named by its variable is imported when it is needed.

    Raises:
        GenerationRefusedError: the process lacks the code: it would stop at the hand-over, and its store would get no
            more updates.
    """
    program = Role.LIVE.program(app)
    beat = read_heartbeat(settings.heartbeat_file(program))
    if beat is None or beat.state not in LIVE_STATES or beat.migrations is None:
        return
    unknown = [name for name in migrations if ":" not in name and name not in beat.migrations]
    if unknown:
        raise GenerationRefusedError(
            f"process {program} started with code that doesn't know migration {unknown[0]}: restart it with newer code "
            f"(DAG stream_apps with app {program} and action upgrade), then take this step again"
        )
