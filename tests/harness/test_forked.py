from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.forked import ForkedProcess, Starters
from harness.ports import free_ports
from harness.waiting import eventually


@pytest.fixture(scope="module")
def starters() -> Iterator[Starters]:
    with Starters().ended() as found:
        yield found


def started(starters: Starters, folder: Path, *words: str, **variables: str) -> ForkedProcess:
    environment = {**os.environ, "STOREKEEPER_RUN_DIR": str(folder), **variables}  # noqa: TID251 (handed on)
    with (folder / "log").open("ab") as log:
        return starters.of({}).start(words, environment, log)


def waiting(starters: Starters, folder: Path) -> ForkedProcess:
    """A node that waits for a broker which isn't there."""
    port, nobody = free_ports(2)
    process = started(
        starters, folder, "node", "a",
        STOREKEEPER_PEERS=f"a=http://127.0.0.1:{port}", STOREKEEPER_STORES="s=t",
        STOREKEEPER_KAFKA_BOOTSTRAP=f"127.0.0.1:{nobody}",
    )  # fmt: skip
    eventually(lambda: "node_listens" in (folder / "log").read_text(), 60, "it runs")
    return process


def test_a_program_has_words_variables_and_a_log_of_its_own(starters: Starters, tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong", tmp_path / "right"
    for folder in (wrong, right):
        folder.mkdir()
    first = started(starters, wrong, "settings", STOREKEEPER_REPLICAS="many")
    second = started(starters, right, "settings")
    assert second.wait(60) == 0
    assert (right / "log").read_text().startswith("# Settings")
    assert first.wait(60) == first.poll() == 0
    third = started(starters, wrong, "node", "a", STOREKEEPER_REPLICAS="many")
    assert third.wait(60) == 78
    assert "STOREKEEPER_REPLICAS" in (wrong / "log").read_text()


def test_a_signal_ends_it_and_its_exit_code_is_reported(starters: Starters, tmp_path: Path) -> None:
    process = waiting(starters, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == process.poll() == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)  # nobody is there any more


def test_it_outlives_the_process_that_it_was_forked_from(tmp_path: Path) -> None:
    with Starters().ended() as starters:
        process = waiting(starters, tmp_path)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_constants_are_others_before_anything_is_imported(starters: Starters, tmp_path: Path) -> None:
    changed = starters.of({"storekeeper.program:ERROR_PREFIX": "changed: "})
    assert changed is not starters.of({}) is starters.of({})
    environment = {**os.environ, "STOREKEEPER_RUN_DIR": str(tmp_path), "STOREKEEPER_REPLICAS": "many"}  # noqa: TID251
    with (tmp_path / "log").open("ab") as log:
        assert changed.start(["node", "a"], environment, log).wait(60) == 78
    assert (tmp_path / "log").read_text().startswith("changed: ")
