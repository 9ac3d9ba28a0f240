"""Which migrations an app's running process has the code of: it keeps the code that it started with."""

from __future__ import annotations

from collections.abc import Sequence

from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.heartbeat import LIVE_STATES, read_heartbeat
from storekeeper.generations.desired_state import Role
from storekeeper.generations.errors import GenerationRefusedError


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
        msg = (
            f"process {program} started with code that doesn't know migration {unknown[0]}: restart it with newer code "
            f"(DAG stream_apps with app {program} and action upgrade), then take this step again"
        )
        raise GenerationRefusedError(msg)
