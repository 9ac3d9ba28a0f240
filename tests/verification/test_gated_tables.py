"""`storekeeper verify` of a table that the quality gate publishes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from storekeeper.apps.registry import gated_tables
from storekeeper.apps.settings import AppSettings
from storekeeper.program import ExitCode, storekeeper_command
from storekeeper.snapshots.gated_seal import GatedTable
from tests.local_tables import local_table

NAME = "hadoop_export"


def test_a_changed_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, table = AppSettings(run_dir=tmp_path), gated_tables()[NAME]
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))

    def verified() -> tuple[int, dict[str, Any]]:
        # A process of its own: a command sends the log of its process to its own standard error.
        done = subprocess.run(storekeeper_command("verify", NAME, "--output", "json"), capture_output=True, check=False)
        return done.returncode, json.loads(done.stdout)

    code, verdict = verified()
    assert (code, verdict["details"]) == (0, {"sealed_versions": {table.staged_name: None, NAME: None}})
    for name in (table.staged_name, NAME):
        write_deltalake(local_table(settings, name), pa.table({"a": [1]}))
    GatedTable.staged(settings, table).seal_version(0)
    GatedTable.published(settings, table).sealed()
    code, verdict = verified()
    assert (code, verdict["details"]) == (0, {"sealed_versions": {table.staged_name: 0, NAME: 0}})
    for name in (table.staged_name, NAME):
        (file,) = local_table(settings, name).glob("*.parquet")
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"!")
        code, verdict = verified()
        assert code == ExitCode.FINDING
        (reason,) = verdict["reasons"]
        assert f"table {name} isn't as it was sealed at version 0: {file.name} was changed" in reason
        file.write_bytes(content)
