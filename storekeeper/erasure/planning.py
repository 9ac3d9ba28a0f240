"""Planning an erasure, and putting its parts together."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from storekeeper.apps.registry import APPS, store_named
from storekeeper.apps.settings import AppSettings, ClientSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.apps.topology_app import own_topics
from storekeeper.changelog.partitioner import partition_for
from storekeeper.cleanup.cleanable import check_alone
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, TimesBesideBatches
from storekeeper.engine.runtime.lease import job_held
from storekeeper.engine.runtime.topics import Topics
from storekeeper.erasure.archives import forget_archives, holds_on, left_by_generations
from storekeeper.erasure.changelog import KafkaErasedLog
from storekeeper.erasure.copies import ErasedCopies
from storekeeper.erasure.erasure import NOT_SEARCHED, Erasure, check_holds, new_id
from storekeeper.erasure.folder import ErasureFolder, ErasurePlan, Noted
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.erasure.search import Searched
from storekeeper.erasure.tables import ErasedTables
from storekeeper.errors import ChangelogError, ConfigurationError, InvalidArgumentError
from storekeeper.generations.live import journal_of, live_from, live_store, named_generations, store_in
from storekeeper.serdes.keys.row_keys import key_of_row
from storekeeper.snapshots.as_of import quoted
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table
from storekeeper.snapshots.duck import Scan, close_off, opened, run
from storekeeper.snapshots.job import take_snapshots
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.node_copies import NodeCopies

_SALT_BYTES = 16
_NO_NODES = "query nodes: none is named in `peers`"


def keys_where(store: str, condition: str, settings: AppSettings) -> list[bytes]:
    """The keys of the rows of a store's newest snapshot for which a condition in SQL holds.

    Raises:
        InvalidArgumentError: the condition can't be evaluated, or holds for no row, or for one without a key.
        ConfigurationError: there is no snapshot.
    """
    spec, _ = live_store(store, settings)
    sealed = SealedTable.of(settings, spec.table_name)
    if sealed.current() is None:
        msg = f"there is no snapshot of {store} to look in: take one with `storekeeper snapshot create {store}`"
        raise ConfigurationError(msg)
    with opened() as connection:
        connection.register(store, Scan(open_table(sealed.path)))
        close_off(connection)
        # The condition is the user's own, and the connection reaches nothing but this table.
        found = run(connection, f"SELECT DISTINCT _key FROM {quoted(store)} WHERE ({condition})")  # noqa: S608
    if not found.rows:
        msg = f"the condition holds for no row of {store} in its newest snapshot"
        raise InvalidArgumentError(msg)
    return sorted({key_of(spec.kind, row_key) for (row_key,) in found.rows})


def key_of(kind: ServedKind, row_key: bytes) -> bytes:
    """The key that a row belongs to.

    Raises:
        InvalidArgumentError: no store of that kind makes such a row.
    """
    key = key_of_row(kind, row_key)
    if key is None:
        msg = f"a row has a key that no {kind.value} store makes, such as a foreign record's: leave it out"
        raise InvalidArgumentError(msg)
    return key


def planned(store: str, keys: Iterable[bytes], settings: AppSettings, clock: Clock) -> ErasurePlan:
    """Plans an erasure, and keeps the plan; changes nothing else.

    Raises:
        InvalidArgumentError: there is no key.
        ConfigurationError: another generation of the app has the rows too.
        ErasureRefusedError: something keeps the keys.
    """
    spec, live = live_store(store, settings)
    check_alone(spec, journal_of(spec, settings))
    erased, now_ms = ErasedKeys(spec.kind, tuple(sorted(set(keys)))), clock.now_ms()
    if not all(erased.keys) or not erased.keys:
        raise InvalidArgumentError("name at least one key, and no empty one")
    check_holds(_holds(erased, spec, live, now_ms))
    log = _log_of(spec, live, clock, 0)
    places, count = log.places(erased), log.changelog.facts.partitions
    counts, noted = Counter(place.partition for place in places), Noted.of(erased.keys)
    noted.see({*(place.row_key for place in places), *_tables_of(spec, settings, clock).row_keys(erased)})
    noted.partitions = sorted({*counts, *(partition_for(key, count) for key in erased.keys)})
    salt, (ours, users) = secrets.token_bytes(_SALT_BYTES), project_topics(settings)
    hashes = tuple(erased.hashes(salt))
    plan = ErasurePlan(
        erasure_id=new_id(now_ms),
        store=store,
        app=spec.app,
        kind=spec.kind,
        topic=spec.changelog_topic,
        topic_id=log.changelog.facts.topic_id,
        generation=live.generation,
        created_ms=now_ms,
        salt=salt.hex(),
        hashes=hashes,
        records=dict(counts),
        topics=ours,
        users_topics=users,
        unknown=noted.unknown(erased, hashes),
    )
    erasures(store, settings).put(plan, noted)
    return plan


def project_topics(settings: AppSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The existing topics of the project's own: of state and of dead letters; and those that its apps share."""
    ours, shared, there = set[str](), set[str](), set(Topics(settings.kafka).names())
    for app in APPS.values():
        for spec, own in named_generations(app, settings):
            ours |= {*own_topics(spec, own), *spec.dead_letter_topics, *(one.changelog_topic for one in spec.stores)}
            shared |= {*spec.sources(own), *spec.sinks(own)}
    return tuple(sorted(ours & there)), tuple(sorted(shared & there - ours))


@contextmanager
def erasure_of(plan: ErasurePlan, settings: ClientSettings, clock: Clock, *, wait_s: float = 0) -> Iterator[Erasure]:
    """An erasure that was planned, with its parts. It waits `wait_s` for Kafka's cleaner.

    Raises:
        ChangelogError: the store has another changelog by now.
        ConfigurationError: another generation of the app has the rows too.
        StoreUnavailableError: a node doesn't answer.
    """
    spec, live = live_store(plan.store, settings)
    check_alone(spec, journal_of(spec, settings))
    log = _log_of(spec, live, clock, wait_s)
    if (spec.changelog_topic, log.changelog.facts.topic_id) != (plan.topic, plan.topic_id):
        msg = f"store {plan.store} has another changelog since erasure {plan.erasure_id} was planned: plan another"
        raise ChangelogError(msg)
    cleanups = _cleanups(plan.store, settings)
    with NodeCopies(list(settings.node_addresses.values()), settings.credentials) as nodes:
        yield Erasure(
            plan=plan,
            folder=erasures(plan.store, settings),
            log=log,
            tables=_tables_of(spec, settings, clock),
            snapshot=lambda: take_snapshots([spec], live, SystemClock(), live_from=live_from(spec, live)),
            upkeep=lambda: job_held(plan.store, "snapshot", settings),
            copies=ErasedCopies.of(spec, nodes, settings, live),
            holds=lambda keys: _holds(keys, spec, live, clock.now_ms()),
            forget=lambda keys: forget_archives(keys, cleanups, clock.now_ms()),
            search=partial(_searched, plan, spec, settings),
            not_searched=NOT_SEARCHED if settings.node_addresses else (*NOT_SEARCHED, _NO_NODES),
            clock=clock,
        )


def _tables_of(spec: StoreSpec, settings: AppSettings, clock: Clock) -> ErasedTables:
    table, history = (SealedTable.of(settings, name) for name in (spec.table_name, spec.history_name))

    def prove(found: VerifiedVersion) -> None:
        check_proven(table.path, found, values_of(store_in(found.manifest, spec, settings), settings))

    return ErasedTables(spec.name, table, history, prove, clock)


def _log_of(spec: StoreSpec, live: AppSettings, clock: Clock, wait_s: float) -> KafkaErasedLog:
    times = TimesBesideBatches(BatchCheckpoint(live.checkpoint_dir(spec.app)), clock)
    return KafkaErasedLog(live.kafka, spec.changelog_topic, clock, time.sleep, wait_s, times)


def _searched(plan: ErasurePlan, spec: StoreSpec, settings: AppSettings, keys: ErasedKeys) -> Searched:
    searched = Searched()
    for topic in dict.fromkeys((plan.topic, *project_topics(settings)[0])):
        searched.read_topic(settings.kafka, topic, keys)
    searched.read_files(settings.tables, keys, own=(spec.table_name, spec.history_name))
    searched.read_files(settings.durable / "cleanups", keys)
    searched.read_files(settings.run_dir / "quality", keys)
    return searched


def erasures(store: str, settings: AppSettings) -> ErasureFolder:
    """The erasures of a store."""
    return ErasureFolder(settings.durable / "erasures" / store, store)


def _holds(keys: ErasedKeys, spec: StoreSpec, live: AppSettings, now_ms: int) -> list[str]:
    first, topics = store_named(spec.name).changelog_topic, Topics(live.kafka).names()
    left = left_by_generations(spec, first, live.generation, topics, live.state_dir)
    return [*holds_on(keys, _cleanups(spec.name, live), spec.name, live, now_ms), *left]


def _cleanups(store: str, settings: AppSettings) -> CleanupFolder:
    return CleanupFolder(settings.durable / "cleanups" / store, store)
