"""Every fault that is put into a copy is found and named; what only looks like one raises no alarm."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from storekeeper.verification.check_verdict import CheckVerdict
from tests.verification import injected_faults
from tests.verification.history_faults import HISTORY_FAULTS, HISTORY_HARMLESS
from tests.verification.injected_world import World, made

FAULTS = injected_faults.FAULTS | HISTORY_FAULTS
HARMLESS = injected_faults.HARMLESS | HISTORY_HARMLESS
TURNS = 5
HARMLESS_RUNS = 5
"""Of each kind in a turn."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return made(tmp_path_factory.mktemp("world") / "run")


def injected(world: World, folder: Path, name: str, seed: str) -> CheckVerdict:
    """The verdict on a copy of the world with one change in it."""
    broken = world.copied(folder)
    change = FAULTS[name][0] if name in FAULTS else HARMLESS[name]
    change(broken, random.Random(f"{name} {seed}"))
    with pytest.MonkeyPatch.context() as patch:
        return broken.verdict(patch)


def said(verdict: CheckVerdict) -> str:
    return "\n".join([*verdict.reasons, *verdict.details["notices"]])


def missed(world: World, folder: Path, name: str, seed: str) -> str:
    """What is wrong with the verdict on a fault, or on what is none; empty if nothing is."""
    verdict = injected(world, folder, name, seed)
    sentences = said(verdict)
    if name in HARMLESS:
        return "" if verdict.passed and not sentences else f"{name} {seed}: a false alarm: {sentences}"
    if FAULTS[name][1] not in sentences:
        return f"{name} {seed}: not found, or not named: {sentences}"
    return "a key or value is shown" if "card-" in sentences or 'CustomerCardNo":' in sentences else ""


@pytest.mark.parametrize("name", FAULTS)
def test_each_kind_of_fault_is_found_and_named(world: World, tmp_path: Path, name: str) -> None:
    assert missed(world, tmp_path / "run", name, "0") == ""


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault_raises_no_alarm(world: World, tmp_path: Path, name: str) -> None:
    assert missed(world, tmp_path / "run", name, "0") == ""


@pytest.mark.long("test_injected_faults.py injects each kind of fault once")
@pytest.mark.parametrize("turn", range(1, TURNS + 1))
def test_many_faults_of_every_kind_are_found_without_a_false_alarm(world: World, tmp_path: Path, turn: int) -> None:
    names = [*FAULTS, *(name for name in HARMLESS for _ in range(HARMLESS_RUNS))]
    found = [missed(world, tmp_path / str(place), name, f"{turn} {place}") for place, name in enumerate(names)]
    assert [one for one in found if one] == []


def test_there_are_enough_kinds() -> None:
    assert len(FAULTS) >= 120
    assert TURNS * len(FAULTS) >= 500
    assert TURNS * HARMLESS_RUNS * len(HARMLESS) >= 500
