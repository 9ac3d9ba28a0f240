from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.generations.catalog import first_journal
from spark_apps.generations.journal import Generation, GenerationState, JournalFile
from spark_apps.settings import AppSettings
from spark_apps.ticks.spec import TICKS
from spark_apps.together import run_together
from state.clock import SystemClock
from state.errors import ConfigurationError


@pytest.mark.parametrize("live", [1, 2])
def test_an_app_with_generations_runs_in_a_process_of_its_own(tmp_path: Path, live: int) -> None:
    first = first_journal(TICKS)
    states = {1: GenerationState.STANDBY, 2: GenerationState.STARTED} | {live: GenerationState.LIVE}
    both = first.updated(
        replace(first.generation(1), state=states[1]),
        Generation(2, states[2], {"prices": "ticks-g2"}, origin=1),
        live=live,
    )
    JournalFile(tmp_path, TICKS.name).write(both)
    with pytest.raises(ConfigurationError, match="start it by `run ticks`, and name the other apps here"):
        run_together([TICKS], AppSettings(run_dir=tmp_path), SystemClock(), threading.Event())
