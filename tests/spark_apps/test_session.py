"""A process may have one Spark session after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_apps.session import jvm_pid, start_session, stop_session
from spark_apps.settings import AppSettings

pytestmark = pytest.mark.spark


def test_a_session_after_a_stopped_one_has_a_jvm_of_its_own(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    jvms = []
    for name in ("first", "second"):
        session = start_session(name, settings)
        try:
            jvms.append(jvm_pid(session))
            assert session.range(3).count() == 3
        finally:
            stop_session(session)
    assert None not in jvms
    assert len(set(jvms)) == 2
