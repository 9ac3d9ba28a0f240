from __future__ import annotations

import subprocess
import sys


def test_an_unknown_app_is_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", "run", "nope"],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    assert done.stdout == ""
    assert "there is no app 'nope': choose one of pos, hadoop_export" in done.stderr
    assert "Traceback" not in done.stderr
