"""The aliases of an app's stores, as its journal has them: they tell nodes which generation answers. Free of Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.clock import SystemClock
from storekeeper.errors import StateError
from storekeeper.generations.catalog import changelogs_of
from storekeeper.generations.desired_state import Role, desired_state_of
from storekeeper.generations.journal import FIRST_GENERATION, Generation, GenerationState, JournalFile
from storekeeper.node.cluster.aliases import Alias, publish_alias, read_aliases
from storekeeper.node.security.cluster_secret import load_cluster_secret

_LOOK_S = 60.0
_log = structlog.get_logger(__name__)


def aliases_of(
    spec: AppSpec, chosen: Generation, other: Generation | None, now_ms: int, *, prepare: bool = False
) -> list[Alias]:
    """Aliases by which nodes serve `chosen` and keep `other` warm; with `prepare` they restore `other` beside it.

    A store that only one of the two has needs none to be prepared: it is served as it is.

    Raises:
        GenerationRefusedError: a migration of theirs doesn't exist any more.
    """
    newer, before = (other, chosen) if prepare and other is not None else (chosen, other)
    of_newer, of_before = _topics(spec, newer), {} if before is None else _topics(spec, before)
    return [
        Alias(store.name, newer.number, of_newer[store.name], of_before.get(store.name), now_ms, prepare=prepare)
        for store in spec.stores
        if store.name in of_newer and (store.name in of_before or not prepare)
    ]


def _topics(spec: AppSpec, generation: Generation) -> Mapping[str, str]:
    is_whole = {store.name for store in spec.stores} <= generation.topics.keys()
    return generation.topics if is_whole else changelogs_of(spec, generation)


def lost_aliases(
    apps: Iterable[AppSpec], settings: AppSettings, known: Callable[[], Mapping[str, Alias]], now_ms: int
) -> Sequence[Alias]:
    """The aliases that journals say were published, and that Kafka doesn't have any more.

    A node that starts without them would answer from the first generation. `known` reads the aliases that Kafka has. It
    isn't called while no journal needs one. Journals don't count where a setting fixes the generation.

    Raises:
        StateError: a journal is damaged, can't be reached, or names what the code doesn't have; Kafka doesn't answer.
    """
    if settings.fixes_generation:
        return ()
    aliases = [alias for app in apps for alias in _published(app, settings, now_ms)]
    published = known() if aliases else {}
    return [alias for alias in aliases if alias.store not in published]


def publish_lost_aliases(apps: Iterable[AppSpec], settings: AppSettings) -> list[str]:
    """Publishes the aliases again that Kafka has lost, and returns their stores. See `lost_aliases`.

    Raises:
        StateError: as `lost_aliases`; or Kafka didn't take one.
    """

    def known() -> Mapping[str, Alias]:
        return read_aliases(settings.kafka, load_cluster_secret(settings.cluster_secret_file))

    lost = lost_aliases(apps, settings, known, SystemClock().now_ms())
    for alias in lost:
        publish_alias(settings.kafka, load_cluster_secret(settings.cluster_secret_file), alias)
        _log.warning("lost_alias_published", store=alias.store, topic=alias.topic)
    return [alias.store for alias in lost]


@contextmanager
def aliases_kept(apps: Sequence[AppSpec], settings: AppSettings) -> Iterator[None]:
    """Publishes the lost aliases of some apps again while the block runs, each within a minute."""
    done = threading.Event()

    def keep() -> None:
        while not done.wait(_LOOK_S):
            try:
                publish_lost_aliases(apps, settings)
            except (StateError, OSError) as error:  # the next look does it
                _log.warning("aliases_not_kept", error=str(error))

    thread = threading.Thread(target=keep, name="aliases", daemon=True)  # not waited for: it may wait for Kafka
    thread.start()
    try:
        yield
    finally:
        done.set()


def _published(app: AppSpec, settings: AppSettings, now_ms: int) -> list[Alias]:
    journal = JournalFile(settings.durable, app.name).read()
    if journal is None:
        return []
    beside = desired_state_of(journal, Role.NEXT)
    other = None if beside is None else beside.generation
    if other is None and journal.live == FIRST_GENERATION:
        return []  # nodes are configured with it
    prepare = other is not None and other.state is not GenerationState.STANDBY
    return aliases_of(app, journal.live_generation, other, now_ms, prepare=prepare)
