"""Every command that may run as a job, killed by KILL at each of its effects and begun again: the same end.

`tests/ops/control/test_killed_actions.py` has those of apps, `tests/generations/test_handover.py` and, with real
processes, `tests/integration/generations` the steps between two generations, `tests/snapshots/test_job.py` snapshots.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from deltalake import DeltaTable

from harness.broker import Broker
from harness.dying_command import Commands
from harness.node_process import COMPACTED, write
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.scan import Changelog
from storekeeper.engine.runtime.lease import job_held
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import Generation, GenerationState, Journal, JournalFile
from storekeeper.generations.steps import planned
from storekeeper.kafka.clients import new_admin
from storekeeper.ops.control.jobs import ALLOWED
from storekeeper.ops.waiting import eventually
from storekeeper.program import ExitCode
from tests.cleanup.test_commands import snapshot
from tests.quality.test_snapshot_gate import row as reward
from tests.quality.test_snapshot_gate import snapshot as snapshot_of_rewards

pytestmark = pytest.mark.broker

PRICES = TICKS.stores[0]
ROWS = {b"S%03d" % number: b'{"Symbol":"S%03d","Price":%d}' % (number, number) for number in range(40)}
ELSEWHERE = {
    *(("app", name) for name in ALLOWED["app"]),
    *(("generation", name) for name in ("seed", "handover")),
    *{("snapshot", "create"), ("upgrade-nodes", ""), ("erase", "")},
}
"""Those that other tests kill."""
READING = {("generation", "plan"), ("generation", "status")}


LOADED = (
    *(f"storekeeper.cli.{name}" for name in ("cleanup", "entry", "generation", "quality", "snapshot", "verify")),
    *("storekeeper.cleanup.cleanup", "storekeeper.quality.snapshot_gate", "storekeeper.quality.quarantine"),
    *("storekeeper.snapshots.table_upkeep", "storekeeper.verification.verify", "deltalake", "great_expectations"),
)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with Commands.begun(*LOADED) as found:
        yield found


@dataclass(slots=True)
class World:
    """A run directory and a changelog of `prices`, made anew for each trial."""

    broker: Broker
    commands: Commands
    root: Path

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def output(self) -> Path:
        """What the last command printed."""
        return self.root / "output"

    def fresh(self) -> None:
        """Begins anew."""
        shutil.rmtree(self.run_dir, ignore_errors=True)
        self.run_dir.mkdir()

    def changelog(self) -> None:
        """Makes the changelog of `prices` anew."""
        with suppress(KafkaException):
            self.broker.delete_topic(PRICES.changelog_topic)
        self.broker.create_topic(PRICES.changelog_topic, 4, COMPACTED)
        write(self.broker, PRICES.changelog_topic, [*ROWS.items()])

    def rows(self) -> dict[bytes, bytes]:
        """The rows that the changelog holds."""
        changelog, found = Changelog(self.broker.kafka, PRICES.changelog_topic), dict[bytes, bytes]()
        for partition in changelog.partitions:
            for record in changelog.scan(partition, 0, changelog.committed(partition)[1]):
                found.pop(record.key or b"", None)
                if record.value is not None:
                    found[record.key or b""] = record.value
        return found

    def call(self, *words: str, at: int = 0) -> tuple[int, Any]:
        """Runs a command, killed at an effect. Returns its exit code and its answer."""
        variables = {
            "STOREKEEPER_RUN_DIR": str(self.run_dir),
            "STOREKEEPER_KAFKA_BOOTSTRAP": self.broker.bootstrap,
        }
        code = self.commands.run([*words, "--output", "json"], variables, at, self.output)
        lines = self.output.read_text().splitlines()
        with suppress(ValueError, IndexError):
            return code, json.loads(lines[-1])
        return code, lines


@pytest.fixture
def world(broker: Broker, commands: Commands, tmp_path: Path) -> World:
    return World(broker, commands, tmp_path)


@dataclass(frozen=True, slots=True)
class Trial:
    """A command.

    Attributes:
        words: it; `{id}` is what `begin` returns.
        begin: makes what it works on.
        end: what others see of its end.
        code: its exit code.
    """

    words: str
    begin: Callable[[World], str]
    end: Callable[[World, str], Any]
    code: int = 0

    def __str__(self) -> str:
        return " ".join(self.words.split()[:2])

    def ends(self, world: World, stride: int) -> list[Any]:
        """The end of a whole run, and that of each run that was killed and begun again."""
        found = []
        for at in chain((0,), count(1, stride)):
            world.fresh()
            made = self.begin(world)
            words = self.words.format(id=made).split()
            code, _ = world.call(*words, at=at)
            if code == -signal.SIGKILL:
                code, said = world.call(*words)
                assert code == self.code, (at, said)
            elif at:
                assert code == self.code
                break
            found.append(self.end(world, made))
        return found


def _untouched(world: World) -> str:
    world.changelog()
    return ""


def _previewed(world: World) -> str:
    world.changelog()
    return str(world.call("cleanup", "preview", "prices", "--ttl-days", "1e-8", "--rate", "100000")[1]["cleanup_id"])


def _cleaned(world: World) -> str:
    made = _previewed(world)
    assert world.call("cleanup", "run", "prices", made)[0] == 0
    return made


def _reported(world: World, made: str) -> Any:
    code, report = world.call("cleanup", "run", "prices", made, "--dry-run")
    return code, {**report, "cleanup_id": ""}, world.rows()


def _with_table(world: World) -> str:
    world.changelog()
    snapshot(world.broker, world.run_dir, ROWS)
    return ""


def _tampered(world: World) -> str:
    _with_table(world)
    DeltaTable(world.run_dir / "delta" / "prices").update(updates={"Price": "Price + 1"})
    return ""


def _in_pieces(world: World) -> str:
    world.changelog()
    for part in range(5):
        snapshot(world.broker, world.run_dir, dict([*ROWS.items()][: 8 * (part + 1)]))
    return ""


def _table(world: World, _: str) -> Any:
    table = DeltaTable(world.run_dir / "delta" / "prices").to_pyarrow_table()
    return sorted(zip(table["_key"].to_pylist(), table["Price"].to_pylist(), strict=True))


def _checked(world: World, _: str) -> Any:
    return [(path.name, path.read_text()[:5]) for path in sorted(world.run_dir.glob("quality/verdicts/rewards/[!.]*"))]


def _unchecked(world: World) -> str:
    path = world.run_dir / "delta" / "rewards"
    snapshot_of_rewards(path, 0, [reward("a"), reward("b")])
    snapshot_of_rewards(path, 1, [reward("a", count=None)])
    return ""


def _quarantined(world: World) -> str:
    _unchecked(world)
    assert world.call("check", "rewards")[0] == ExitCode.FINDING
    return ""


def _resolved(world: World, _: str) -> Any:
    (path,) = world.run_dir.glob("quality/resolutions/rewards/[!.]*")
    found = json.loads(path.read_text())
    return {name: found[name] for name in ("action", "by", "reason", "accepted", "rows")}


def _verified(world: World, _: str) -> Any:
    last = max(world.run_dir.glob("quality/verdicts/verify/prices/[!.]*"))
    return json.loads(last.read_text())["passed"]


def _second(journal: Journal) -> Generation:
    return journal.generation(2)


def _handed_over(world: World) -> str:
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    second = replace(_second(journal), state=GenerationState.LIVE)
    first = replace(journal.generation(1), state=GenerationState.STANDBY)
    JournalFile(world.run_dir, "pos").write(replace(journal.updated(first, second), live=2))
    for topic in first.topics.values():
        with suppress(KafkaException):
            world.broker.create_topic(topic, 1, COMPACTED)
    for folder in ("checkpoints/pos/gen-1/offsets", "generations/pos/gen-1", "tasks/pos/gen-1"):
        (world.run_dir / folder).mkdir(parents=True)
    return ""


def _seeded(world: World) -> str:
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    JournalFile(world.run_dir, "pos").write(journal.updated(replace(_second(journal), state=GenerationState.STARTED)))
    return ""


def _journal(world: World, _: str) -> Any:
    found = JournalFile(world.run_dir, "pos").read()
    assert found is not None
    left = [str(path.relative_to(world.run_dir)) for path in world.run_dir.glob("*/pos/gen-1")]
    topics = {*found.generation(1).topics.values()} & {*new_admin(world.broker.kafka).list_topics(timeout=10).topics}
    return found.live, [one.state for one in found.generations.values()], left, topics


TRIALS = (
    Trial("cleanup preview prices --ttl-days 1e-8", _untouched, lambda world, _: world.rows()),
    Trial("cleanup run prices {id}", _previewed, _reported),
    Trial("cleanup undo prices {id}", _cleaned, _reported),
    Trial("snapshot optimize prices", _in_pieces, _table),
    Trial("snapshot restore prices", _tampered, _table),
    Trial("verify prices", _with_table, _verified),
    Trial("check rewards", _unchecked, _checked, ExitCode.FINDING),
    Trial("quarantine show rewards 1-1 --check-again", _quarantined, _checked),
    Trial("quarantine release rewards 1-1 --by me --reason because --accept presence", _quarantined, _resolved),
    Trial("quarantine discard rewards 1-1 --by me --reason because", _quarantined, _resolved),
    Trial("generation retire pos --delete", _handed_over, _journal),
    Trial("generation rollback pos", _seeded, _journal),
)


QUICK = {"cleanup run": 9, "generation retire": 4, "generation rollback": 2}


@pytest.mark.parametrize(
    ("trial", "stride"),
    [
        *(pytest.param(trial, QUICK[str(trial)], id=str(trial)) for trial in TRIALS if str(trial) in QUICK),
        *(
            pytest.param(
                trial,
                1,
                id=f"{trial}, each effect",
                marks=pytest.mark.long(
                    "test_each_allowed_command_is_killed_somewhere and three trials with fewer effects"
                ),
            )
            for trial in TRIALS
        ),
    ],
)
def test_a_command_that_is_killed_and_begun_again_ends_the_same(world: World, trial: Trial, stride: int) -> None:
    whole, *again = trial.ends(world, stride)
    assert again, "it has effects"
    assert again == [whole] * len(again)


def test_each_allowed_command_is_killed_somewhere() -> None:
    every = {(command, name) for command, names in ALLOWED.items() for name in names or {""}}
    tried = {(command, name if ALLOWED[command] else "") for command, name in (str(one).split()[:2] for one in TRIALS)}
    assert every == tried | ELSEWHERE | READING


def test_of_two_at_once_on_one_store_the_second_waits(world: World) -> None:
    world.fresh()
    made = _previewed(world)
    with ThreadPoolExecutor(1) as thread:
        with job_held("prices", "cleanup", AppSettings.load(run_dir=world.run_dir)):
            called = thread.submit(world.call, "cleanup", "run", "prices", made)
            assert eventually(lambda: "lease=prices@cleanup" in world.output.read_text(), 60)
            assert f'behind="process {os.getpid()}"' in world.output.read_text()
            assert len(world.rows()) == len(ROWS)
        code, said = called.result()
    assert (code, len(world.rows())) == (0, 0), said
