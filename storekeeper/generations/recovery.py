"""Going on from the tables: an app whose changelogs, or whole Kafka, are lost goes on as a new generation of its own.

The new generation begins with the rows of the stores' histories at the end of one batch, the newest that all of them
have, and reads the input on from where that batch ended. It becomes live at once: there is no other one to compare
with. Every step is in the journal before the next begins, so a repeated command goes on after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.topics import TopicBounds, Topics
from storekeeper.errors import NotExactError
from storekeeper.generations import steps
from storekeeper.generations.desired_state import generation_lease
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import TABLES, GenerationState, Journal
from storekeeper.generations.seeding import Seed, Seeding
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import HISTORY, Coverage, changes_until, fold_sql, iso_ms
from storekeeper.snapshots.delta_log import open_table
from storekeeper.snapshots.duck import Scan, folding
from storekeeper.snapshots.history import HistoryManifest, history_manifests
from storekeeper.snapshots.seal import SealedTable

_COLUMNS = ("_partition", "_key", "_value", "_timestamp_ms")
_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class SealedHistory:
    """The sealed history of a store. `manifests` are those of its commits, newest first."""

    place: Location
    version: int
    manifests: Sequence[HistoryManifest]

    @classmethod
    def of(cls, settings: AppSettings, table: str) -> SealedHistory | None:
        """The history of a store's table, once all of its files have been read and are as sealed; None without one.

        Raises:
            SnapshotDamagedError: it isn't as it was sealed.
        """
        sealed = SealedTable.of(settings, table + HISTORY)
        seal = sealed.current(whole=True)
        if seal is None or seal.version is None:
            return None
        return cls(sealed.path, seal.version, tuple(history_manifests(sealed.path, upto=seal.version)))

    def exact(self, manifest: HistoryManifest) -> bool:
        """Whether the store's rows at the end of a commit's batch are known."""
        newest = self.manifests[0]
        coverage = Coverage(newest.exact_from_ms, newest.exact_to_ms, newest.gaps, newest.eras)
        try:
            coverage.check(manifest.store, manifest.exact_to_ms)
        except NotExactError:
            return False
        return True

    def rows(self, manifest: HistoryManifest) -> Iterator[pa.RecordBatch]:
        """The rows at the end of a commit's batch."""
        at_ms = manifest.exact_to_ms
        changes = changes_until(at_ms, self.manifests[0].era(at_ms))
        with folding(self.place) as database:
            database.register("changes", Scan(open_table(self.place, self.version), changes))
            yield from database.sql(fold_sql("changes", _COLUMNS)).to_arrow_reader(_BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The plan.

    Attributes:
        app: the app.
        number: the new generation.
        manifests: by store, the commit of its history that it begins with.
        start: where it reads its input on.
        why: what is lost of the live generation.
        losses: what the new generation will lack, in sentences.
        progress: that of the tasks, by slot and partition.
    """

    app: str
    number: int
    manifests: Mapping[str, HistoryManifest]
    start: Position
    why: str
    losses: tuple[str, ...]
    progress: Mapping[str, Mapping[int, bytes]]

    @property
    def at(self) -> HistoryManifest:
        """Any of the commits: they are of one batch."""
        return next(iter(self.manifests.values()))

    def answer(self) -> dict[str, Any]:
        """The plan as JSON types."""
        at = self.at
        return {
            "app": self.app,
            "generation": self.number,
            "why": self.why,
            "tables": {store: f"{store}{HISTORY}" for store in self.manifests},
            "rows_of_generation": at.generation,
            "batch": at.batch,
            "as_of": iso_ms(at.exact_to_ms),
            "input": {topic: {str(p): offset for p, offset in parts.items()}
                      for topic, parts in self.start.offsets.items()},
            "losses": list(self.losses),
            "again": f"what generation {at.generation} wrote to output topics after batch {at.batch} is written again",
        }  # fmt: skip


def common_batch(histories: Mapping[str, SealedHistory]) -> dict[str, HistoryManifest]:
    """By store, the commit of the newest batch that all histories have, and know exactly.

    Raises:
        GenerationRefusedError: there is none; the message names what each has.
    """
    by_store = {
        store: {(one.app, one.generation, one.batch): one for one in reversed(history.manifests) if history.exact(one)}
        for store, history in histories.items()
    }
    common = set.intersection(*(set(batches) for batches in by_store.values()))
    if not common:
        has = ", ".join(
            f"{store} has batch {history.manifests[0].batch} of generation {history.manifests[0].generation} "
            f"({iso_ms(history.manifests[0].exact_to_ms)})"
            for store, history in histories.items()
        )
        msg = f"the tables have no batch in common that is known exactly: {has}. Fill a generation from the input"
        raise GenerationRefusedError(msg)
    first = next(iter(by_store.values()))
    newest = max(common, key=lambda batch: first[batch].exact_to_ms)
    return {store: batches[newest] for store, batches in by_store.items()}


def start_of(
    position: Position, bounds: TopicBounds, began_with: Mapping[str, str], ids: Mapping[str, str]
) -> tuple[Position, list[str]]:
    """Where the input is read on, and a sentence for each loss.

    Args:
        position: where the batch ended.
        bounds: where the topics begin and end now.
        began_with: the ids of the topics that the app began with, as far as they are known.
        ids: those of the topics now.
    """
    start: dict[str, dict[int, int]] = {}
    losses: list[str] = []
    for topic, partition, offset in position:
        place = f"topic {topic} partition {partition}"
        first, end = bounds.start.offset(topic, partition), bounds.end.offset(topic, partition)
        if first is None or end is None:
            losses.append(f"{place} is gone: what it lacks behind {offset} is lost")
            continue
        if topic in began_with and began_with[topic] != ids.get(topic):
            losses.append(f"{place} is of a topic made anew: it is read from its beginning, {first}, and what it lacks "
                          f"of the old one behind {offset} is lost")  # fmt: skip
            offset = first  # noqa: PLW2901
        elif end < offset and topic in began_with:
            losses.append(f"{place} ends at {end}, and the tables have its records below {offset}: Kafka has older "
                          "data; it is read from its end")  # fmt: skip
            offset = end  # noqa: PLW2901
        elif end < offset:
            losses.append(f"{place} ends at {end}, and the tables have records below {offset}: it is taken for another "
                          f"topic, and read from its beginning, {first}")  # fmt: skip
            offset = first  # noqa: PLW2901
        elif first > offset:
            losses.append(f"{place} begins at {first}: its records {offset} to {first - 1} were deleted and are lost")
            offset = first  # noqa: PLW2901
        start.setdefault(topic, {})[partition] = offset
    if unknown := sorted(position.offsets.keys() - began_with.keys()):
        losses.append(f"the claim on the checkpoint is gone: nobody knows whether {', '.join(unknown)} is still the "
                      "topic that the tables' position is of")  # fmt: skip
    return Position(start), losses


@dataclass(frozen=True)
class Recovering:
    """The recovery of one app."""

    controller: GenerationController
    topics: Topics

    def plan(self, journal: Journal) -> Recovery:
        """Looks at what is lost and what the tables have. Changes nothing.

        Raises:
            GenerationRefusedError: nothing is lost, or the app can't go on from its tables.
            SnapshotDamagedError: a history isn't as it was sealed.
            BrokerUnavailableError: Kafka doesn't answer.
        """
        spec, settings, live = self.controller.spec, self.controller.settings, journal.live_generation
        self._check_alone(journal)
        self._check_sources()
        why = self.what_is_lost(journal)
        if why is None:
            raise GenerationRefusedError(
                f"nothing of generation {journal.live} of {journal.app} is lost: going on from the tables would lose "
                "what it did since. Start the app; `generation seed` copies its rows"
            )
        histories = self._histories()
        manifests = common_batch(histories)
        at = next(iter(manifests.values()))
        if at.app != spec.name or at.generation not in journal.generations:
            of = f"generation {at.generation} of {at.app}"
            msg = f"the tables are of {of}, which the journal of {spec.name} doesn't know"
            raise GenerationRefusedError(msg)
        number = max(journal.generations) + (journal.candidate is None)
        new = replace(live, number=number, topics={})
        seeding = Seeding(spec, settings, journal.generation(at.generation), new)
        seeding.check_nothing_on_its_way()
        if inside := seeding.internal_stores:
            raise GenerationRefusedError(
                f"store {inside[0]} of {spec.name} has no table, as no node serves it: the app can't go on from its "
                "tables. Fill a generation from the input: `seed --from beginning`"
            )
        claim = CheckpointOwner.read(self.controller.checkpoint(live).path)
        sources = at.source_offsets.offsets
        start, losses = start_of(
            at.source_offsets,
            self.topics.bounds(sources),
            {} if claim is None else {topic: one for topic, one in claim.topic_ids.items() if topic in sources},
            self.topics.ids(sources),
        )
        for store, history in histories.items():
            if history.manifests[0].batch != manifests[store].batch:
                losses.append(f"the table of {store} is at a later batch, {history.manifests[0].batch}: all stores go "
                              f"back to batch {at.batch}, and the input since is read again")  # fmt: skip
        progress = {slot: {int(p): text.encode() for p, text in tasks.items()} for slot, tasks in at.progress.items()}
        if not progress.keys() >= seeding.slots.keys():
            losses.append("the stream times and timers of tasks are not in the tables: late records may be taken, "
                          "windows that were emitted when they closed may come again, timers start anew")  # fmt: skip
        return Recovery(spec.name, number, manifests, start, why, tuple(losses), progress)

    def take(self, *, accept_loss: bool) -> Journal:
        """Makes the new generation, and makes it live. Repeat it after a crash: it goes on where it was. Goes on
        although something is lost only if `accept_loss`.

        Raises:
            GenerationRefusedError: as `plan`; or something is lost, and nobody has accepted that.
            AppRunningError: the app runs: stop it first.
        """
        controller = self.controller
        file, settings = controller.journal_file, controller.settings
        with file.locked(settings.run_dir):
            journal = controller.read()
            if journal.candidate is None and self._is_done(journal):
                return journal
            with self._stopped(journal):
                return self._taken(journal, accept_loss=accept_loss)

    def _taken(self, journal: Journal, *, accept_loss: bool) -> Journal:
        controller, file = self.controller, self.controller.journal_file
        candidate = journal.candidate
        if candidate is None or candidate.state is GenerationState.PLANNED:
            recovery = self.plan(journal)
            if recovery.losses and not accept_loss:
                msg = f"{'; '.join(recovery.losses)}. If that is so, repeat it with --accept-loss"
                raise GenerationRefusedError(msg)
            journal = steps.planned(journal, controller.spec, (), journal.live_generation.partitions, since=TABLES)
            file.write(journal)
            seed = self.make_seed(recovery, journal)
            journal = steps.seeded(journal, recovery.number, seed.start, seed.rows)
            file.write(journal)
            candidate = journal.generation(recovery.number)
        self._check_alone(journal)
        controller.serve(candidate)
        journal = steps.recovered(journal, candidate.number)
        file.write(journal)
        return journal

    def make_seed(self, recovery: Recovery, journal: Journal) -> Seed:
        """Makes the changelogs and the checkpoint of the planned generation; replaces those of an earlier attempt."""
        at, histories = recovery.at, self._histories()
        seeding = Seeding(
            self.controller.spec,
            self.controller.settings,
            journal.generation(at.generation),
            journal.generation(recovery.number),
        )
        batch = CommittedBatch(at.generation, at.batch, recovery.start, at.exact_to_ms)
        rows = {store: partial(histories[store].rows, manifest) for store, manifest in recovery.manifests.items()}
        return seeding.from_rows(rows, batch, recovery.progress)

    def _histories(self) -> dict[str, SealedHistory]:
        spec, settings = self.controller.spec, self.controller.settings
        found = {store.name: SealedHistory.of(settings, store.table_name) for store in spec.stores}
        without = [store for store, history in found.items() if history is None]
        if without or not found:
            raise GenerationRefusedError(
                f"{f'store {without[0]}' if without else spec.name} has no table to go on from: fill a generation from "
                "the input: `seed --from beginning`"
            )
        return {store: history for store, history in found.items() if history is not None}

    def _check_alone(self, journal: Journal) -> None:
        """Refuses while another generation is under way, or stands by: it may have what is lost."""
        other = journal.other
        # One that this command is making is its own. A standby isn't, however it once began.
        if other is not None and (other.since != TABLES or other.state is GenerationState.STANDBY):
            raise GenerationRefusedError(
                f"generation {other.number} of {journal.app} is {other.state}, and may have what generation "
                f"{journal.live} has lost: hand over to it or roll back to it, or retire it first"
            )

    def _check_sources(self) -> None:
        spec, settings = self.controller.spec, self.controller.settings
        missing = self.topics.missing(spec.sources(settings))
        if missing:
            msg = f"{spec.name} reads topic {missing[0]}, which doesn't exist: make it first, with what is left of it"
            raise GenerationRefusedError(msg)

    def what_is_lost(self, journal: Journal) -> str | None:
        """What is lost of the live generation, so that it can't go on; None if nothing is."""
        spec, settings, live = self.controller.spec, self.controller.settings, journal.live_generation
        checkpoint = self.controller.checkpoint(live)
        if CheckpointOwner.read(checkpoint.path) is None or checkpoint.query_id() is None:
            return f"the checkpoint of generation {live.number} of {spec.name} is lost"
        claim, sources = CheckpointOwner.read(checkpoint.path), spec.sources(settings)
        try:
            Seeding(spec, settings, live, live).check_nothing_lost()
            if claim is not None:
                claim.check_sources(self.topics.ids(sources))
        except (GenerationRefusedError, UnusableCheckpointError) as error:
            return str(error).partition(": ")[0].partition(", so ")[0]
        ends = self.topics.end(sources)
        for topic, partition, offset in self.controller.input_of(checkpoint.committed_position()):
            if (end := ends.offset(topic, partition) or 0) < offset:
                return f"topic {topic} partition {partition} ends at {end}, and was read to {offset}"
        return None

    def _is_done(self, journal: Journal) -> bool:
        return journal.live_generation.since == TABLES and self.what_is_lost(journal) is None

    @contextmanager
    def _stopped(self, journal: Journal) -> Iterator[None]:
        """Holds the lease of the live generation, so that it doesn't begin meanwhile.

        Raises:
            AppRunningError: it runs.
        """
        controller = self.controller
        name = generation_lease(journal.app, journal.live)
        lease = Lease(controller.settings.lease_file(name), clock=controller.clock, wait=controller.wait)
        lease.acquire(0)
        try:
            yield
        finally:
            lease.release()
