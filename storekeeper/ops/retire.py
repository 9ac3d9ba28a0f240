"""Retiring an app that the configuration doesn't name any more: its stores are served no longer, and may be deleted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.checkpoint_owner import CLAIM_SUFFIX, CheckpointOwner
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError, RefusedError, UnknownStoreError
from storekeeper.generations.deletion import remove_folder
from storekeeper.generations.desired_state import Role
from storekeeper.generations.journal import JournalFile
from storekeeper.locations import delete_tree, entries
from storekeeper.names import checked_name
from storekeeper.ops.environment import app_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.platform_apps import forget_stores, known_stores
from storekeeper.ops.platform_state import started_with
from storekeeper.ops.programs import Kind, kind_of
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import SupervisorRpc, running_supervisor
from storekeeper.stores.store_definitions import parse_definitions


def retire(app: str, platform: PlatformSettings, *, delete: bool) -> dict[str, object]:
    """Retires an app. Safe to repeat. Its Delta tables stay. With `delete`, its changelogs, checkpoints, journal and
    local stores are deleted. Returns what was retired and deleted.

    Raises:
        ConfigurationError: the configuration names it, or it has never run here.
        RefusedError: its process is still there; or nodes serve what is to be deleted, and its stores are retired.
        BrokerUnavailableError: its topics can't be deleted now. Repeat it.
    """
    layout, name = RunLayout(platform.run_dir), checked_name(app)
    if name in APPS:
        msg = f"{name} is configured: take it out of storekeeper.toml, and run `storekeeper apply` first"
        raise ConfigurationError(msg)
    client = running_supervisor(layout)
    if client is not None and {name, Role.NEXT.program(name)} & {*client.names()}:
        raise RefusedError(f"{name} still has a process here: run `storekeeper apply` first, which removes it")
    stores = {store: known.definition for store, known in known_stores(layout.root).items() if known.app == name}
    settings = app_settings(platform)
    if not stores and not entries(settings.checkpoints / name):
        raise UnknownStoreError(f"no app {name} has ever run here: `storekeeper plan` names those that were removed")
    there = {*Topics(settings.kafka).names()} if delete else set()
    own = _own_topics(name, stores, settings, there) if delete else set()
    deleted = sorted(own & there)
    forget_stores(layout.root, name)
    if serving := _serving(layout, client, own) if deleted and client is not None else []:
        raise RefusedError(
            f"the stores of {name} are retired, but nodes still serve them ({', '.join(serving)}): run `storekeeper "
            f"apply`, then `storekeeper app retire {name} --delete` once more, which deletes them"
        )
    for role in Role:
        layout.heartbeat(role.program(name)).unlink(missing_ok=True)
        (layout.stopped / role.program(name)).unlink(missing_ok=True)
    if delete:
        Topics(settings.kafka).delete(deleted)
        _delete_files(name, settings)
    return {"app": name, "stores": sorted(stores), "deleted_topics": deleted}


def _serving(layout: RunLayout, client: SupervisorRpc, topics: Collection[str]) -> list[str]:
    """The nodes that follow a topic of an app: to them, a deleted one would be lost, and its rows the last copy.

    `topics` are those of all generations, also of those that are gone: a node was started with the first one's, and an
    alias has named others to it since. A node that has no record of its start may follow any.
    """
    found = []
    for info in client.processes():
        if kind_of(info.name) is Kind.NODE and info.is_wanted:
            _, settings = started_with(layout, info.name)
            served = parse_definitions(str((settings or {}).get("stores") or ""))
            if settings is None or {definition.topic for definition in served.values()} & {*topics}:
                found.append(info.name)
    return found


def _own_topics(app: str, stores: Mapping[str, str], settings: AppSettings, there: Collection[str]) -> set[str]:
    """Changelogs of all generations, markers and repartitions that the app made, also those that are gone; `there` are
    the topics that Kafka has. Its sources, sinks and dead letters may be others' as well, whatever they are called.
    """
    journal = JournalFile(settings.durable, app).read()
    of_journal = {} if journal is None else journal.generations
    own = {definition.topic for definition in parse_definitions(",".join(stores.values())).values()}
    own |= {topic for generation in of_journal.values() for topic in generation.topics.values()}
    own |= {topic for claim in _claims(app, settings) for topic in claim.own_topics}
    own |= {topic for topic in there if re.fullmatch(rf"{re.escape(app)}-gen-[0-9]+-.*-(markers|repartition)", topic)}
    others = {topic for other in APPS.values() for topic in other.topics(settings)}
    return own - others


def _claims(app: str, settings: AppSettings) -> Iterator[CheckpointOwner]:
    for path in entries(settings.checkpoints / app):
        if path.name.endswith(CLAIM_SUFFIX):
            claim = CheckpointOwner.read(path.with_name(path.name.removesuffix(CLAIM_SUFFIX)))
            if claim is not None and claim.app == app:
                yield claim


def _delete_files(app: str, settings: AppSettings) -> None:
    (settings.durable / "generations" / f"{app}.json").unlink(missing_ok=True)
    for folder in (settings.run_dir / "generations" / app, settings.state_dir / app, settings.scratch_dir(app)):
        remove_folder(folder)
    settings.scale_file(app).unlink(missing_ok=True)
    delete_tree(settings.checkpoints / app)  # the last: by them a repeated command knows that the app has run here
