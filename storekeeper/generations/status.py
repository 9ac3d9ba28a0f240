"""The generations of an app, how far they are, and the processes that run them. It loads no code of an app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.heartbeat import heartbeat_problem, read_heartbeat
from storekeeper.generations.desired_state import Role, check_not_fixed
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, Journal, JournalFile

if TYPE_CHECKING:
    from storekeeper.apps.spec import AppSpec


@dataclass(frozen=True, slots=True)
class AppFacts:
    """What the status of an app's generations needs to know of its code. `changelogs` are those of the first
    generation. `why_no_generations` is None if it can have some.
    """

    name: str
    stores: tuple[str, ...]
    changelogs: Mapping[str, str]
    sources: tuple[str, ...]
    why_no_generations: str | None


def check_changeable(app: AppSpec | AppFacts) -> None:
    """Refuses an app that can't have generations.

    Raises:
        GenerationRefusedError: it can't.
    """
    if app.why_no_generations is not None:
        raise GenerationRefusedError(f"{app.name} can't have generations: {app.why_no_generations}")


def generation_status(app: AppFacts, settings: AppSettings, clock: Clock) -> dict[str, Any]:
    """The generations of an app and how far they are.

    Raises:
        GenerationRefusedError: it can't have generations, or a setting says which one runs.
    """
    check_changeable(app)
    check_not_fixed(settings)
    journal = JournalFile(settings.durable, app.name).read() or Journal.first(app.name, app.changelogs)
    return status_of(app, journal, settings, clock)


def status_of(app: AppFacts, journal: Journal, settings: AppSettings, clock: Clock) -> dict[str, Any]:
    """The generations of a journal and how far they are, and the processes of the app."""
    transfer = journal.transfer
    live = _position(journal.live_generation, app, settings)
    return {
        "app": journal.app,
        "stores": list(app.stores),
        "live": journal.live,
        "candidate": None if journal.candidate is None else journal.candidate.number,
        "standby": None if journal.standby is None else journal.standby.number,
        "transfer": None if transfer is None else {"phase": transfer.phase, "target": transfer.target},
        "generations": [_generation(item, app, settings, live) for _, item in sorted(journal.generations.items())],
        "processes": {
            program: process_status(program, settings, clock)
            for program in (role.program(journal.app) for role in Role)
        },
    }


def _generation(generation: Generation, app: AppFacts, settings: AppSettings, live: Position) -> dict[str, Any]:
    checkpoint = _checkpoint(generation, app, settings)
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
        "records_behind_live": behind(live, position),
    }


def _checkpoint(generation: Generation, app: AppFacts, settings: AppSettings) -> BatchCheckpoint:
    of_it = settings.in_generation(generation.number)
    return BatchCheckpoint(of_it.checkpoint_dir(app.name))


def _position(generation: Generation, app: AppFacts, settings: AppSettings) -> Position:
    """The input position of a generation. Repartition topics are left out: each generation has its own."""
    position = _checkpoint(generation, app, settings).committed_position()
    return Position({topic: ends for topic, ends in position.offsets.items() if topic in app.sources})


def behind(ahead: Position, other: Position) -> int:
    """How many input records `other` is behind `ahead`."""
    return sum(max(0, offset - (other.offset(topic, partition) or 0)) for topic, partition, offset in ahead)


def process_status(program: str, settings: AppSettings, clock: Clock) -> dict[str, Any] | None:
    """A process of an app by its last heartbeat, and what is wrong with it; None if it has left none."""
    beat = read_heartbeat(settings.heartbeat_file(program))
    if beat is None:
        return None
    now_ms = clock.now_ms()
    return {
        "state": beat.state,
        "generation": beat.generation,
        "pid": beat.pid,
        "age_ms": beat.age_ms(now_ms),
        "error": beat.error,
        "problem": heartbeat_problem(beat, beat.pid, now_ms),
    }
