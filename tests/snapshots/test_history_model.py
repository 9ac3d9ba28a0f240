"""Histories and tables of random lives of a store, compared with what the store was as it was written.

The log cleaner removes whatever it may, runs die at every step, clean-ups delete, generations come and go back.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from storekeeper.snapshots import append, table_writer
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.history import HistoryManifest, newest_history
from storekeeper.snapshots.seal import SealedTable
from tests.snapshots.played_log import TOMBSTONES_MS, PlayedLog, PlayedStore, batch_of

KEYS = st.sampled_from("abcdef")
CHANGES = st.dictionaries(KEYS, st.one_of(st.none(), st.sampled_from(["x", "y", "z"])), max_size=4)


class KilledError(BaseException):
    """The process ends here."""


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.played = PlayedStore(Path(self.folder.name), PlayedLog("log-1"))
        self.logs = [self.played.log]
        self.batches = {1: -1}
        self.planned = {1: -1}
        self.at_ms: dict[int, int] = {}
        self.content: dict[str, str] = {}
        self.contents: dict[str, dict[str, str]] = {}
        self.was: list[tuple[int, dict[str, str]]] = []
        self.cleaned = self.turned = False

    def teardown(self) -> None:
        self.folder.cleanup()

    @property
    def log(self) -> PlayedLog:
        return self.played.log

    @rule(changes=CHANGES, finishes=st.booleans())
    def batch(self, changes: dict[str, str | None], finishes: bool) -> None:
        number, generation = self.batches[self.log.generation] + 1, self.log.generation
        if self.planned[generation] < number:  # else the batch before was not finished: it runs on
            self.planned[generation] = number
            self.at_ms[generation] = self._later()
            self.log.batch(number, self.at_ms[generation], changes)
            self._apply(changes, self.at_ms[generation])
        if finishes:
            self.batches[generation] = number

    @rule(key=KEYS)
    def cleanup(self, key: str) -> None:
        if key in self.content and self.planned[self.log.generation] == self.batches[self.log.generation]:
            at_ms = self._later()
            self.log.cleanup(key, at_ms)
            self._apply({key: None}, at_ms)
            if newest_history(self.played.entry(HISTORY).path) is None:
                # Nothing counts its transaction: to the first run it may be a change that the log cleaner has removed.
                self.cleaned = True

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        for place in self.log.replaced():
            if data.draw(st.booleans()):
                self.log.remove(place)
                self.cleaned = True

    @rule()
    def forget_deletions(self) -> None:
        """A day without a run, though not without a batch: the next run can't know what was deleted."""
        self.batch(changes={}, finishes=True)
        self.played.now_ms += TOMBSTONES_MS
        self.log.forget_deletions()
        self.cleaned = self.turned = True

    @precondition(lambda self: self.batches[self.log.generation] >= 0)
    @rule()
    def hand_over(self) -> None:
        if self.planned[self.log.generation] != self.batches[self.log.generation]:
            return
        number = len(self.logs) + 1
        self.contents[self.log.topic] = dict(self.content)
        self.played.log = PlayedLog(f"log-{number}", number)
        self.log.seed(self._later(), self.content)
        self.logs.append(self.log)
        self.batches[number] = self.planned[number] = 0
        self.at_ms[number] = self._later()
        self.turned = True
        self._apply({}, self.at_ms[number])

    @precondition(lambda self: len(self.logs) > 1)
    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        if self.planned[self.log.generation] != self.batches[self.log.generation]:
            return
        self.contents[self.log.topic] = dict(self.content)
        self.played.log = data.draw(st.sampled_from(self.logs))
        self.content = dict(self.contents[self.log.topic])
        self.turned = True
        self.was.append((self._later(), dict(self.content)))

    @precondition(lambda self: self.batches[self.log.generation] >= 0)
    @rule(dies=st.sampled_from([None, None, "reading", "history", "sealing", "between", "table", "sealing table"]))
    def run(self, dies: str | None) -> None:
        self._later()
        generation = self.log.generation
        batch = batch_of(generation, self.batches[generation], self._finished_ms())
        with pytest.MonkeyPatch.context() as patch:
            if dies is None:
                self.played.take(batch, self.planned[generation])
                self._check_table()
                assert self.played.flaws() == [], "verification raises a false alarm"
                return

            def die(*_: Any, **__: Any) -> None:
                raise KilledError

            try:
                if dies == "reading":
                    patch.setattr(append, "_spilled", die)
                elif dies == "history":
                    patch.setattr(table_writer, "write_deltalake", die)
                elif dies == "sealing":
                    patch.setattr(SealedTable, "_made", die)
                history = self.played.append(batch, self.planned[generation])
                if dies == "between":  # a run for the history alone leaves the same
                    assert self.played.flaws() == [], "verification raises a false alarm"
                if dies == "table":
                    patch.setattr(table_writer, "write_deltalake", die)
                    self.played.fold(history)
                elif dies == "sealing table":
                    patch.setattr(SealedTable, "_made", die)
                    self.played.fold(history)
            except KilledError:
                pass

    @invariant()
    def each_record_is_there_once_and_every_exact_time_is_right(self) -> None:
        found = newest_history(self.played.entry(HISTORY).path)
        if found is None:
            return
        manifest, rows = found.manifest, DeltaTable(str(self.played.entry(HISTORY).path)).to_pyarrow_table().to_pylist()
        for first, end in zip(manifest.eras, [*manifest.eras[1:], 10**14], strict=True):
            places = [(row["_partition"], row["_offset"]) for row in rows if first <= row["_batch_ms"] < end]
            assert len(places) == len(set(places))
        times = sorted({at + more for at, _ in self.was for more in (0, 1)})
        for at_ms in times:
            if is_exact(manifest, at_ms):
                assert fold(rows, manifest, at_ms) == self._known(at_ms), (at_ms, manifest)
        if not self.cleaned and not self.turned:
            assert manifest.gaps == ()
            assert manifest.exact_from_ms == manifest.eras[0]

    def _check_table(self) -> None:
        found = newest_history(self.played.entry(HISTORY).path)
        assert found is not None
        if found.manifest.hides or self.planned[self.log.generation] != self.batches[self.log.generation]:
            return
        table = DeltaTable(str(self.played.entry().path)).to_pyarrow_table(columns=["_key", "Word"]).to_pylist()
        assert {row["_key"].decode(): row["Word"] for row in table} == self.content

    def _later(self) -> int:
        self.played.now_ms += 7_000
        return self.played.now_ms

    def _finished_ms(self) -> int:
        """The time of the last finished batch."""
        generation = self.log.generation
        return self.finished.get((generation, self.batches[generation]), 0)

    def _apply(self, changes: dict[str, str | None], at_ms: int) -> None:
        for key, word in changes.items():
            if word is None:
                self.content.pop(key, None)
            else:
                self.content[key] = word
        self.finished[self.log.generation, self.planned[self.log.generation]] = self.at_ms[self.log.generation]
        self.was.append((at_ms, dict(self.content)))

    @initialize()
    def begin(self) -> None:
        self.finished: dict[tuple[int, int], int] = {}

    def _known(self, at_ms: int) -> dict[str, str]:
        return next((content for since, content in reversed(self.was) if since <= at_ms), {})


def is_exact(manifest: HistoryManifest, at_ms: int) -> bool:
    in_gap = any(start <= at_ms < end for start, end in manifest.gaps)
    return manifest.exact_from_ms <= at_ms <= manifest.exact_to_ms and not in_gap


def fold(rows: list[dict[str, Any]], manifest: HistoryManifest, at_ms: int) -> dict[str, str]:
    newest: dict[bytes, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["_offset"]):
        if manifest.era(at_ms) <= row["_batch_ms"] <= at_ms:
            newest[row["_key"]] = row
    return {key.decode(): row["Word"] for key, row in newest.items() if row["_value"] is not None}


def test_each_record_is_there_once_and_every_exact_time_is_right_wherever_runs_die() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=30, stateful_step_count=20, deadline=None))
