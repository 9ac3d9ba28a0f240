from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction

from storekeeper_provider.dag_parts.runs import at
from tests.architecture.test_tree import ROOT


def test_a_dag_that_is_new_waits_for_its_next_time() -> None:
    now = datetime.now(UTC)
    just_missed = now - timedelta(minutes=2)
    timetable = coerce_to_core_timetable(at(f"{just_missed.minute} * * * *"))
    found = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
    )
    assert found is not None
    assert now < found.run_after <= now + timedelta(hours=1)
    assert found.run_after.minute == just_missed.minute


def test_every_dag_that_runs_seldom_has_such_a_schedule() -> None:
    crons = [
        (path.stem, line)
        for path in (ROOT / "dags").glob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r'"[\d*/]+ [\d*/]+ \* \* \*"', line)
    ]
    assert len(crons) == 6
    assert [(name, line) for name, line in crons if 'at("' not in line] == [
        ("watch_streams", '    schedule="* * * * *",')
    ]
