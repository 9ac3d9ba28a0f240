"""The ways in which the history of a store comes to be wrong, by itself or with a seal that fits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from storekeeper.clock import DAY_MS
from storekeeper.snapshots.history import HistoryManifest, newest_history
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from tests.snapshots.attacks import (
    BEHIND_THE_ROWS,
    column_added,
    commit_lost,
    deleted,
    edited,
    file_cut,
    file_lost,
    inserted,
    log_cut,
    log_cut_at_a_line,
    log_lost,
    manifest_field,
    overwritten,
    updated,
    upgraded,
    without_data_change,
)
from tests.verification.injected_faults import Change, Draw, any_file, flip, lost
from tests.verification.injected_world import LAST_BATCH, World

Rows = list[dict[str, Any]]
_NAMED = "table rewards_history"
_OF_OTHERS = (
    "OPTIMIZE", "a comment", "the manifest's partitions", "the manifest's schema version", "the manifest's time"
)  # fmt: skip
"""These do nothing to a history: its files are too few, it has no such column and its manifest no such field."""


def _of_history(attack: Callable[[Path], object]) -> Change:
    return lambda world, _: attack(world.history)


def _manifest(world: World) -> HistoryManifest:
    found = newest_history(world.history)
    assert found is not None
    return found.manifest


def _written(world: World, rows: pa.Table, manifest: HistoryManifest) -> None:
    write_deltalake(
        world.history,
        rows,
        mode="overwrite",
        partition_by=["_day"],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
    )


def _of_rows(change: Callable[[Rows, int, Draw], object]) -> Change:
    """Other rows, with the manifest and a seal that fits: a change at a random one."""

    def attack(world: World, draw: Draw) -> None:
        table = DeltaTable(world.history).to_pyarrow_table()
        rows = sorted(table.to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))
        values = [place for place, row in enumerate(rows) if row["_value"] is not None]
        change(rows, draw.choice(values), draw)
        _written(world, pa.Table.from_pylist(rows, table.schema), _manifest(world))
        world.sealed_history.sealed()

    return attack


def _set(**changes: Any) -> Change:
    return _of_rows(lambda rows, place, _: rows[place].update(changes))


def _shifted(rows: Rows, place: int, draw: Draw) -> None:
    """By less than there is to the end of any day."""
    rows[place]["_batch_ms"] += draw.choice([-1, 1, 1000, -60_000])


def _batch_shifted(rows: Rows, place: int, _: Draw) -> None:
    """All records of a batch a little later."""
    batch = rows[place]["_batch"]
    for row in rows:
        if row["_batch"] == batch:
            row["_batch_ms"] += 7


def _swapped(rows: Rows, place: int, _: Draw) -> None:
    """The places of two records of a partition."""
    other = (
        place + 1 if place + 1 < len(rows) and rows[place + 1]["_partition"] == rows[place]["_partition"] else place - 1
    )
    for name in ("_offset", "_batch", "_batch_ms", "_day"):
        rows[place][name], rows[other][name] = rows[other][name], rows[place][name]


def _claims(**changes: Any) -> Change:
    """Another manifest, with a seal that fits."""

    def attack(world: World, _: Draw) -> None:
        before = _manifest(world)
        made = {name: change(before) if callable(change) else change for name, change in changes.items()}
        _written(world, DeltaTable(world.history).to_pyarrow_table(), replace(before, **made))
        world.sealed_history.sealed()

    return attack


def _moved(name: str, by: int) -> Callable[[HistoryManifest], dict[int, int]]:
    return lambda manifest: {at: number + by for at, number in getattr(manifest, name).items()}


def _older_with_its_seal(world: World, _: Draw) -> None:
    """History and seal as they were a snapshot ago."""
    newest = max((world.history / "_delta_log").glob("*.json"))
    added = [json.loads(line)["add"]["path"] for line in newest.read_text().splitlines() if '"add"' in line]
    for file in (newest, *(world.history / path for path in added)):
        file.unlink()
    world.sealed_history.sealed()


def _seal(change: Callable[[Any, Draw], object]) -> Change:
    return lambda world, draw: change(world.sealed_history.file, draw)


def _older_seal(world: World, _: Draw) -> None:
    seal = world.sealed_history.read()
    assert seal is not None
    files = dict([*seal.files.items()][:2])
    world.sealed_history.file.write_bytes(replace(seal, version=0, files=files).to_json())


def _behind_a_dead_writer(world: World, draw: Draw) -> None:
    """A foreign commit with a copy of the manifest, and the mark of a writer that has not sealed."""
    seal = world.sealed_history.read()
    assert seal is not None
    rows = DeltaTable(world.history).to_pyarrow_table()
    metadata = CommitProperties(custom_metadata={"userMetadata": _manifest(world).to_json()})
    write_deltalake(
        world.history, rows.slice(draw.randrange(rows.num_rows), 1), mode="append", commit_properties=metadata
    )
    world.sealed_history.file.write_bytes(replace(seal, writing=True).to_json())


HISTORY_FAULTS: dict[str, tuple[Change, str]] = {
    **{
        f"history: {name}": (_of_history(attack), _NAMED)
        for name, attack in BEHIND_THE_ROWS.items()
        if name not in _OF_OTHERS
    },
    "history: a value edited": (_of_history(edited("_value", b"{}")), _NAMED),
    "history: a typed column edited": (_of_history(edited("TotalLoyaltyPoints", Decimal("9.0000"))), _NAMED),
    "history: a key edited": (_of_history(edited("_key", b"mallory")), _NAMED),
    "history: an offset edited": (_of_history(edited("_offset", 10**12)), _NAMED),
    "history: a batch time edited": (_of_history(edited("_batch_ms", 1)), _NAMED),
    "history: UPDATE": (_of_history(updated("InvoiceCount", "InvoiceCount + 1")), _NAMED),
    "history: DELETE": (_of_history(deleted("_partition = 1")), _NAMED),
    "history: DELETE of all": (_of_history(deleted(None)), _NAMED),
    "history: INSERT": (_of_history(inserted), _NAMED),
    "history: overwrite": (_of_history(overwritten), _NAMED),
    "history: an added column": (_of_history(column_added), _NAMED),
    "history: another protocol": (_of_history(upgraded), _NAMED),
    "history: a removal without data change": (_of_history(without_data_change), _NAMED),
    "history: an empty commit": (_of_history(log_cut(0)), _NAMED),
    "history: a torn commit": (_of_history(log_cut(0.5)), _NAMED),
    "history: a commit without its last line": (_of_history(log_cut_at_a_line), _NAMED),
    "history: a lost commit": (_of_history(commit_lost), _NAMED),
    "history: a lost log": (_of_history(log_lost), _NAMED),
    "history: a lost file": (_of_history(file_lost), _NAMED),
    "history: a cut file": (_of_history(file_cut), _NAMED),
    "history: a flipped bit in any file": (lambda world, draw: flip(any_file(world.history, draw), draw), _NAMED),
    "history: any file lost": (lambda world, draw: any_file(world.history, draw).unlink(), _NAMED),
    "history: gone": (lambda world, _: shutil.rmtree(world.history), f"{_NAMED} is gone"),
    "history: gone with its seal": (lambda world, _: lost(world.sealed_history), f"{_NAMED} is gone"),
    "history: forged counts": (_of_history(manifest_field("totals", lambda totals: {**totals, "0": 9})), _NAMED),
    "history: gaps denied": (_of_history(manifest_field("gaps", lambda _: [[1, 2]])), _NAMED),
    "history: exact from earlier": (_of_history(manifest_field("exact_from_ms", lambda at: at - 9)), _NAMED),
    "history: exact to later": (_of_history(manifest_field("exact_to_ms", lambda at: at + 9)), _NAMED),
    "history: other eras": (_of_history(manifest_field("eras", lambda eras: [at + 1 for at in eras])), _NAMED),
    "history: a lost seal": (_seal(lambda file, _: file.unlink()), f"{_NAMED} has no seal"),
    "history: a flipped bit in the seal": (_seal(flip), _NAMED),
    "history: a torn seal": (_seal(lambda file, _: file.write_bytes(file.read_bytes()[:99])), "has a damaged seal"),
    "history: an older seal": (_older_seal, _NAMED),
    "history: a commit behind a dead writer": (_behind_a_dead_writer, "has a record twice"),
    "sealed history: a value edited": (_set(_value=b"{}"), "isn't what the changelog has"),
    "sealed history: a value deleted": (_set(_value=None), "isn't what the changelog has"),
    "sealed history: a key edited": (_set(_key=b"mallory"), "isn't what the changelog has"),
    "sealed history: a record's time edited": (_set(_timestamp_ms=1), "isn't what the changelog has"),
    "sealed history: a schema version edited": (_set(_schema_version=77), "isn't what the changelog has"),
    "sealed history: a generation edited": (_set(_generation=2), "isn't what the changelog has"),
    "sealed history: a batch edited": (_set(_batch=99), "isn't what the changelog has"),
    "sealed history: a count edited": (_set(InvoiceCount=-1), "column InvoiceCount isn't what the value says"),
    "sealed history: an amount edited": (_set(TotalLoyaltyPoints=Decimal("9.0000")), "isn't what the value says"),
    "sealed history: an amount taken away": (_set(TotalLoyaltyPoints=None), "isn't what the value says"),
    "sealed history: an offset edited": (_set(_offset=10**12), "lacks what the changelog has"),
    "sealed history: no offset": (_set(_offset=None), "has a row without an offset"),
    "sealed history: another partition": (_set(_partition=7), "has a row of no partition"),
    "sealed history: another day": (
        _of_rows(lambda rows, place, _: rows[place].update(_day=rows[place]["_day"] + timedelta(2))), "of another day",
    ),
    "sealed history: a shifted time": (_of_rows(_shifted), "has another time than its batch"),
    "sealed history: a batch's time shifted": (_of_rows(_batch_shifted), "has another time than its batch"),
    "sealed history: a time to come": (
        _of_rows(lambda rows, place, _: rows[place].update(_batch_ms=10**14)), "has a time after its last run",
    ),
    "sealed history: a row deleted": (_of_rows(lambda rows, place, _: rows.pop(place)), "lacks what the changelog has"),
    "sealed history: a row doubled": (
        _of_rows(lambda rows, place, _: rows.append({**rows[place]})), "has a record twice",
    ),
    "sealed history: two rows swapped": (_of_rows(_swapped), "isn't what the changelog has"),
    "sealed history: older offsets": (_claims(changelog_offsets=_moved("changelog_offsets", -5)), "beyond its end"),
    "sealed history: later offsets": (_claims(changelog_offsets=_moved("changelog_offsets", 5)), "lacks what"),
    "sealed history: offsets that there are not": (
        _claims(changelog_offsets=_moved("changelog_offsets", 10**6)), "its manifest reaches to offset",
    ),
    "sealed history: forged counts": (_claims(totals=_moved("totals", 3)), "counts other changes than the changelog"),
    "sealed history: counts too small": (_claims(totals=_moved("totals", -3)), "counts other changes"),
    "sealed history: another topic": (_claims(changelog_topic="other"), "its manifest says changelog topic other"),
    "sealed history: another generation": (_claims(generation=7), "its manifest is of generation 7"),
    "sealed history: another store": (_claims(store="other"), "its manifest says store other"),
    "sealed history: another app": (_claims(app="other"), "its manifest says app other"),
    "sealed history: exact in the future": (_claims(exact_to_ms=10**14), "of a time that has not come"),
    "sealed history: exact from before it began": (_claims(exact_from_ms=1), "its manifest says that it is exact from"),
    "sealed history: eras in another order": (
        _claims(eras=lambda before: (*before.eras, before.eras[0] - 1)), "its manifest says that it is exact from",
    ),
    "sealed history: gaps upside down": (_claims(gaps=((9, 4),)), "gaps that don't follow each other"),
    "sealed history: an older copy": (_older_with_its_seal, "table rewards isn't its fold"),
}  # fmt: skip
"""By name: how a history becomes wrong, and a part of what names it. `sealed`: with a seal that fits."""


def _kept_up(world: World, _: Draw) -> None:
    """What is older than a day is thinned and sorted, and old versions go."""
    done = HistoryUpkeep(world.sealed_history, "rewards", 10**13).run(kept_ms=DAY_MS, versions_ms=DAY_MS)
    assert done is not None


def _kept_up_and_on(world: World, draw: Draw) -> None:
    _kept_up(world, draw)
    world.snapshot(LAST_BATCH)


def _died(world: World, _: Draw, *, committed: bool) -> None:
    """A writer that died behind its mark, or behind its commit."""
    seal = world.sealed_history.read()
    assert seal is not None
    if committed:
        world.append(LAST_BATCH)
    world.sealed_history.file.write_bytes(replace(seal, writing=True).to_json())


def _died_and_went_on(world: World, draw: Draw) -> None:
    """The next run takes the commit back, and makes it again."""
    _died(world, draw, committed=True)
    world.snapshot(LAST_BATCH)


def _touched(world: World, draw: Draw) -> None:
    file = any_file(world.history, draw)
    os.utime(file)
    file.chmod(0o600)


def _moved_back(world: World, _: Draw) -> None:
    shutil.copytree(world.history, world.run_dir / "copy")
    shutil.rmtree(world.history)
    shutil.copytree(world.run_dir / "copy", world.history)


def _begun_again(world: World, _: Draw) -> None:
    """Moved away as its error says, and begun again."""
    lost(world.sealed_history)
    world.snapshot(LAST_BATCH)


HISTORY_HARMLESS: dict[str, Change] = {
    "history: a file's times and mode": _touched,
    "history: moved away and back": _moved_back,
    "history: upkeep": _kept_up,
    "history: upkeep and another snapshot": _kept_up_and_on,
    "history: a writer that died before its commit": lambda world, draw: _died(world, draw, committed=False),
    "history: a writer that died after its commit": lambda world, draw: _died(world, draw, committed=True),
    "history: a commit that was taken back": _died_and_went_on,
    "history: begun again": _begun_again,
    "history: not yet folded": lambda world, _: world.append(LAST_BATCH) and None,
}
"""Only looks as if it were wrong."""
