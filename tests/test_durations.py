"""What a run of tests leaves in the record of durations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.durations import PROJECT, read_record

_RUN = """
import pytest
from pathlib import Path
from tests.durations import DurationRecorder
pytest.main(["-q", "-p", "no:cacheprovider"], plugins=[DurationRecorder(Path("durations.json"), Path())])
"""
_WORK = """
import time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def test_two(): work(0.2)
"""
_TESTS = {
    "work.py": _WORK,
    "conftest.py": "import pytest\nfrom work import work\n@pytest.fixture(scope='session')\ndef shared(): work(2)\n",
    "test_first.py": "from work import test_two, work\ndef test_one(shared): work(0.2)\n",
    "test_failing.py": "def test_it(): assert False\n",
}
_BEFORE = """{
  "test_failing.py": {"processor_s": 5.0, "wall_s": 5.0},
  "test_gone.py": {"processor_s": 5.0, "wall_s": 5.0}
}
"""


def test_files_and_shared_fixtures_are_recorded_apart(tmp_path: Path) -> None:
    for name, text in _TESTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "durations.json").write_text(_BEFORE)
    subprocess.run(
        [sys.executable, "-c", _RUN], env={"PYTHONPATH": f"{PROJECT}:{tmp_path}"}, cwd=tmp_path, check=True, timeout=300
    )
    record = read_record(tmp_path / "durations.json")
    assert {"test_first.py", "test_failing.py", "fixture shared"} <= record.keys()
    assert record.keys().isdisjoint({"test_gone.py", "work.py"})
    assert record["test_failing.py"].processor_s == 5.0, "a failure says nothing about a duration"
    assert record["fixture shared"].processor_s >= 1.9
    assert 0.3 <= record["test_first.py"].processor_s < record["fixture shared"].processor_s
