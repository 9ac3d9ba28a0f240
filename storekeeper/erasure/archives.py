"""What else Storekeeper itself keeps of a store's rows: archives, promised versions, what other generations left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.errors import StorageError


def holders_of(keys: ErasedKeys, folder: CleanupFolder, now_ms: int) -> Iterator[tuple[str, int | None]]:
    """The clean-ups whose archives have rows of the keys; until when each can be undone, None if it can't be."""
    for plan in folder.plans():
        archive = folder.archive(plan)
        partitions = [partition for partition in plan.ends if archive.exists(partition)]
        if any(keys.holds(row.key) for partition in partitions for row in archive.rows(partition)):
            until_ms = folder.undo_until_ms(plan)
            yield plan.cleanup_id, until_ms if until_ms is not None and now_ms < until_ms else None


def forget_archives(keys: ErasedKeys, folder: CleanupFolder, now_ms: int) -> list[str]:
    """Deletes the archives that have rows of the keys and can't be undone any more. Returns the clean-ups' ids."""
    found = [cleanup_id for cleanup_id, until_ms in holders_of(keys, folder, now_ms) if until_ms is None]
    for cleanup_id in found:
        folder.archive(folder.plan(cleanup_id)).forget()
    return found


def holds_on(keys: ErasedKeys, folder: CleanupFolder, store: str, settings: AppSettings, now_ms: int) -> list[str]:
    """What keeps the keys from being erased, a sentence each: clean-ups that can be undone, and promised versions."""
    found = []
    for cleanup_id, until_ms in holders_of(keys, folder, now_ms):
        if until_ms is not None:
            until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")
            found.append(f"clean-up {cleanup_id} of {store} has rows of them archived, and can be undone until {until}")
    for path in sorted((settings.run_dir / "promises" / store).glob("*.json")):
        try:
            promise = orjson.loads(path.read_bytes())
            if promise["until_ms"] is None or promise["until_ms"] > now_ms:
                found.append(f"{path} promises version {promise['version']} of table {store}: remove it")
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{path} is not a promise of a table's version: correct or remove it"
            raise StorageError(msg) from error
    return found


def left_by_generations(store: StoreSpec, first: str, number: int, topics: Iterable[str], state_dir: Path) -> list[str]:
    """What other generations of an app have left of a store's rows, a sentence each.

    Args:
        store: the store, in the live generation.
        first: the changelog of its first generation.
        number: the number of the live one.
        topics: the topics that there are.
        state_dir: has the local stores of all generations, if they are on this machine.
    """
    changelog = re.compile(rf"{re.escape(first)}(-g\d+)?")
    there = [f"changelog {name}" for name in sorted({*topics} - {store.changelog_topic}) if changelog.fullmatch(name)]
    folders = sorted((state_dir / store.app).glob("gen-*"))
    there += [str(folder) for folder in folders if folder.name != f"gen-{number}"]
    remedy = f"delete what is left, such as by `storekeeper generation retire {store.app} --delete`"
    return [f"{what} of another generation is still there: {remedy}" for what in there]
