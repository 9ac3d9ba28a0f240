"""The generations of an app, how far they are, and the processes that run them."""

from __future__ import annotations

from typing import Any

import orjson

from storekeeper.engine.runtime.app_health import heartbeat_problem
from storekeeper.engine.runtime.heartbeat import read_heartbeat
from storekeeper.generations.comparison import behind
from storekeeper.generations.desired_state import Role
from storekeeper.generations.handover import GenerationController, controller_of
from storekeeper.generations.journal import Generation, Journal


def generation_status(app: str) -> dict[str, Any]:
    """The generations of an app and how far they are.

    Raises:
        ConfigurationError: there is no such app, or it can't have generations.
    """
    controller = controller_of(app)
    return status_of(controller, controller.read())


def status_of(controller: GenerationController, journal: Journal) -> dict[str, Any]:
    """The generations of a journal and how far they are, and the processes of the app."""
    transfer = journal.transfer
    return {
        "app": journal.app,
        "stores": [store.name for store in controller.spec.stores],
        "live": journal.live,
        "candidate": None if journal.candidate is None else journal.candidate.number,
        "standby": None if journal.standby is None else journal.standby.number,
        "transfer": None if transfer is None else {"phase": transfer.phase, "target": transfer.target},
        "generations": [_generation(controller, journal, item) for _, item in sorted(journal.generations.items())],
        "processes": {role.program(journal.app): process_status(controller, role) for role in Role},
    }


def _generation(controller: GenerationController, journal: Journal, generation: Generation) -> dict[str, Any]:
    checkpoint = controller.checkpoint(generation)
    live = controller.checkpoint(journal.live_generation).committed_position()
    position = checkpoint.committed_position()
    return {
        "generation": generation.number,
        "state": generation.state,
        "topics": dict(generation.topics),
        "migrations": list(generation.migrations),
        "schema": " -> ".join(generation.migrations) or "no migration",
        "origin": generation.origin,
        "seed_rows": generation.seed_rows,
        "since": generation.since,
        "start": orjson.loads(generation.start.to_json()),
        "outputs": [list(span) for span in generation.outputs],
        "last_batch": checkpoint.last_committed_batch(),
        "position": orjson.loads(position.to_json()),
        "records_behind_live": behind(controller.input_of(live), position),
    }


def process_status(controller: GenerationController, role: Role) -> dict[str, Any] | None:
    """A process of the app by its last heartbeat, and what is wrong with it; None if it has left none."""
    beat = read_heartbeat(controller.settings.heartbeat_file(role.program(controller.spec.name)))
    if beat is None:
        return None
    now_ms = controller.clock.now_ms()
    return {
        "state": beat.state,
        "generation": beat.generation,
        "pid": beat.pid,
        "age_ms": beat.age_ms(now_ms),
        "error": beat.error,
        "problem": heartbeat_problem(beat, beat.pid, now_ms),
    }
