"""The steps, as pure functions of the journal. Each refuses what isn't possible, and changes nothing if it is done.

    plan -> seed -> start -> hand over -> (roll back) -> retire

Where the live generation's changelogs are lost, there is nothing to hand over: plan -> seed -> recovered.

A hand-over goes through the phases of `TransferPhase`. Until it is complete it can be called off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import changelog_topics
from storekeeper.changelog.position import Position
from storekeeper.generations.catalog import changelogs_of, topology_of
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState, Journal, Transfer, TransferPhase


def planned(
    journal: Journal, spec: AppSpec, migrations: Sequence[str], partitions: int | None = None, since: str | None = None
) -> Journal:
    """The journal with a planned generation, which adds `migrations` to the live one's. They must fit the app.

    The live one's stores are noted as they are now: its topology may have got some since it was made. Without
    `partitions`, it has as many as the live one.

    Raises:
        GenerationRefusedError: there is a candidate or a standby, or the migrations don't continue the live ones.
    """
    names = (*journal.live_generation.migrations, *migrations)
    partitions = journal.live_generation.partitions if partitions is None else partitions
    candidate = journal.candidate
    if candidate is not None:
        if (candidate.migrations, candidate.partitions, candidate.since) == (names, partitions, since):
            return journal
        msg = f"generation {candidate.number} is already under way: hand over to it, or retire it first"
        raise GenerationRefusedError(msg)
    if journal.standby is not None:
        raise GenerationRefusedError(f"generation {journal.standby.number} stands by for a roll-back: retire it first")
    number = max(journal.generations) + 1
    generation = Generation(
        number,
        GenerationState.PLANNED,
        changelog_topics(spec.name, topology_of(spec, names), number),
        origin=journal.live,
        migrations=names,
        partitions=partitions,
        since=since,
    )
    live = replace(journal.live_generation, topics=changelogs_of(spec, journal.live_generation))
    return journal.updated(live, generation)


def seeded(journal: Journal, number: int, start: Position, rows: int) -> Journal:
    """The journal once the changelogs and the checkpoint of a planned generation are complete."""
    seeded = replace(journal.generation(number), state=GenerationState.SEEDED, start=start, seed_rows=rows)
    return journal.updated(seeded)


def recovered(journal: Journal, number: int) -> Journal:
    """The journal once the aliases are published of a generation that was seeded from the tables: it is live.

    The one before has written outputs of later input than the tables have. The new one writes these again.
    """
    live = replace(journal.generation(number).unmute_after(0), state=GenerationState.LIVE)
    return journal.updated(replace(journal.live_generation, state=GenerationState.RETIRED), live, live=number)


def started(journal: Journal, number: int) -> Journal:
    """The journal once the aliases are published that prepare the generation: it may run."""
    return journal.updated(replace(journal.generation(number), state=GenerationState.STARTED))


def begun(journal: Journal, target: int, *, compares: bool) -> Journal:
    """The journal with a hand-over to `target` begun; unchanged if it is under way.

    Raises:
        GenerationRefusedError: another one is under way, or the target can't become live.
    """
    transfer = journal.transfer
    if transfer is not None:
        if transfer.target == target:
            return journal
        msg = f"a hand-over to generation {transfer.target} is under way: let it end, or cancel it with `rollback`"
        raise GenerationRefusedError(msg)
    generation = journal.generation(target)
    if generation.state not in {GenerationState.STARTED, GenerationState.VERIFIED, GenerationState.STANDBY}:
        msg = f"generation {target} is {generation.state}: only one that runs beside the live one can take over"
        raise GenerationRefusedError(msg)
    return journal.updated(transfer=Transfer(journal.live, target, compares=compares))


def waiting(journal: Journal, end: Position) -> Journal:
    """The journal once the target is paused at input position `end`."""
    return journal.updated(transfer=replace(_transfer(journal), phase=TransferPhase.WAITING, end=end))


def aligning(journal: Journal, end: Position, source_batch: int, target_batch: int) -> Journal:
    """The journal once it is decided that the source runs up to `source_batch`, and the target to `target_batch`."""
    transfer = replace(
        _transfer(journal), phase=TransferPhase.ALIGNING, end=end, source_batch=source_batch, target_batch=target_batch
    )
    return journal.updated(transfer=transfer)


def aligned(journal: Journal) -> Journal:
    """The journal once both are aligned and, with `compares`, compared. The target writes the outputs from there."""
    transfer = replace(_transfer(journal), phase=TransferPhase.ALIGNED)
    source, target = journal.generation(transfer.source), journal.generation(transfer.target)
    assert transfer.source_batch is not None  # noqa: S101 (for the type checker)
    assert transfer.target_batch is not None  # noqa: S101
    if transfer.compares:
        target = replace(target, state=GenerationState.VERIFIED)
    return journal.updated(
        source.mute_after(transfer.source_batch), target.unmute_after(transfer.target_batch), transfer=transfer
    )


def completed(journal: Journal) -> Journal:
    """The journal once the aliases are published: the target is live, the source is the standby."""
    transfer = _transfer(journal)
    return journal.updated(
        replace(journal.generation(transfer.source), state=GenerationState.STANDBY),
        replace(journal.generation(transfer.target), state=GenerationState.LIVE),
        live=transfer.target,
        transfer=None,
    )


def called_off(journal: Journal) -> Journal:
    """The journal without the hand-over that is under way: everything is as it was before it."""
    transfer = journal.transfer
    if transfer is None:
        return journal
    source, target = journal.generation(transfer.source), journal.generation(transfer.target)
    if transfer.phase is TransferPhase.ALIGNED:
        assert transfer.source_batch is not None  # noqa: S101 (for the type checker)
        assert transfer.target_batch is not None  # noqa: S101
        # Neither has run a batch since, so the source writes outputs again from its next batch.
        source = source.unmute_after(transfer.source_batch)
        target = target.mute_after(transfer.target_batch)
    if target.state is GenerationState.VERIFIED:
        target = replace(target, state=GenerationState.STARTED)
    return journal.updated(source, target, transfer=None)


def retired(journal: Journal, number: int) -> Journal:
    """The journal with a generation retired.

    Raises:
        GenerationRefusedError: it is live, or a hand-over is under way.
    """
    generation = journal.generation(number)
    if journal.live == number:
        raise GenerationRefusedError(f"generation {number} is live: hand over to another one before it can be retired")
    if journal.transfer is not None:
        raise GenerationRefusedError("a hand-over is under way: let it end, or cancel it with `rollback`")
    if generation.state is GenerationState.RETIRED:
        return journal
    return journal.updated(replace(generation, state=GenerationState.RETIRED))


def _transfer(journal: Journal) -> Transfer:
    if journal.transfer is None:
        raise GenerationRefusedError(f"no hand-over of {journal.app} is under way")
    return journal.transfer
