from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog.position import Position
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState, Journal, JournalFile, Transfer, TransferPhase
from storekeeper.locations import Location, write_in_one_step

TOPIC = "pos-rewards-changelog"
positions = st.dictionaries(
    st.sampled_from(["pos", "purchases"]), st.dictionaries(st.integers(0, 20), st.integers(0, 2**60), max_size=3)
).map(Position)
generations = st.builds(
    Generation,
    number=st.integers(2, 9),
    state=st.sampled_from(GenerationState),
    topics=st.dictionaries(st.sampled_from(["rewards", "points"]), st.sampled_from([TOPIC, "other"]), min_size=1),
    origin=st.none() | st.integers(1, 9),
    migrations=st.lists(st.sampled_from(["tier", "cents"])).map(tuple),
    partitions=st.none() | st.integers(1, 64),
    since=st.none() | st.just("beginning"),
    seed_rows=st.integers(0, 10**9),
    start=positions,
    outputs=st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(0, 99))).map(tuple),
)
transfers = st.none() | st.builds(
    Transfer,
    source=st.integers(1, 9),
    target=st.integers(1, 9),
    phase=st.sampled_from(TransferPhase),
    end=positions,
    source_batch=st.none() | st.integers(0, 99),
    target_batch=st.none() | st.integers(0, 99),
)


def first() -> Journal:
    return Journal.first("pos", {"rewards": TOPIC})


@given(generations, transfers)
def test_a_journal_is_read_as_it_was_written(generation: Generation, transfer: Transfer | None) -> None:
    journal = first().updated(generation, transfer=transfer)
    assert Journal.from_json(journal.to_json()) == journal


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{}", first().to_json()[:-20], b'{"generations":[{}]}'])
def test_a_damaged_journal_is_refused(damaged: bytes) -> None:
    with pytest.raises(GenerationRefusedError, match="damaged"):
        Journal.from_json(damaged)


@given(st.lists(st.integers(0, 5), max_size=6))
def test_handing_over_to_and_fro_leaves_every_batch_of_input_to_one_writer(lengths: list[int]) -> None:
    """Both generations run side by side, batch by batch; outputs change hands after the given numbers of batches."""
    ours = Generation(1, GenerationState.LIVE, {"rewards": TOPIC}, outputs=((0, None),))
    theirs = Generation(2, GenerationState.VERIFIED, {"rewards": TOPIC})
    writers: dict[int, int] = {}
    batch, writer = -1, 1
    for length in lengths:
        for _ in range(length):
            batch += 1
            writers[batch] = writer
        if writer == 1:
            ours, theirs = ours.mute_after(batch), theirs.unmute_after(batch)
        else:
            theirs, ours = theirs.mute_after(batch), ours.unmute_after(batch)
        writer = 3 - writer
    for number, expected in {**writers, batch + 1: writer, batch + 100: writer}.items():
        assert (ours.writes_outputs(number), theirs.writes_outputs(number)) == (expected == 1, expected == 2)


def test_a_generation_is_live_without_a_break_until_another_took_the_place_of_its_batches() -> None:
    begun = Generation(2, GenerationState.LIVE, {"rewards": TOPIC}).unmute_after(3)
    called_off = begun.mute_after(7).unmute_after(7)
    back = begun.mute_after(7).unmute_after(9)
    assert (begun.live_from, called_off.live_from, back.live_from) == (4, 4, 10)


def test_an_app_that_never_changed_writes_all_its_outputs() -> None:
    generation = first().live_generation
    assert (generation.number, generation.origin) == (1, None)
    assert generation.writes_outputs(0)
    assert generation.writes_outputs(10**9)


def test_a_journal_knows_who_is_on_its_way_and_who_stands_by() -> None:
    journal = first()
    assert (journal.candidate, journal.standby) == (None, None)
    second = Generation(2, GenerationState.PLANNED, {"rewards": f"{TOPIC}-g2"}, origin=1)
    journal = journal.updated(second)
    assert journal.candidate == second
    standby = replace(journal.live_generation, state=GenerationState.STANDBY)
    journal = journal.updated(standby, replace(second, state=GenerationState.LIVE), live=2)
    assert (journal.candidate, journal.standby) == (None, standby)
    with pytest.raises(GenerationRefusedError, match="has no generation 3: it has 1, 2"):
        journal.generation(3)


def test_the_file_is_replaced_as_a_whole_and_changed_by_one_at_a_time(place: Location, tmp_path: Path) -> None:
    file, same = JournalFile(place, "pos"), JournalFile(place, "pos")
    assert file.read() is None
    file.write(first())
    assert same.read() == first()
    # A step that died between the draft and its renaming.
    write_in_one_step(place / "generations" / f"pos.json.{os.getpid()}.new", b"{")
    assert file.read() == first()
    with file.locked(tmp_path):
        with pytest.raises(GenerationPendingError, match="another process"), same.locked(tmp_path):
            pass
        with JournalFile(place, "ticks").locked(tmp_path):
            pass
    with file.locked(tmp_path):
        pass
