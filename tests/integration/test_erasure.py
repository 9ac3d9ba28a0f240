"""A key of each kind of store is erased from a real changelog, its tables, a node, a task's store and an archive."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from harness.broker import Broker
from harness.node_process import NodeProcess, make_nodes
from harness.waiting import eventually
from spark_apps.leaderboard import LEADERBOARD
from spark_apps.sales_windows import SALES_WINDOWS
from spark_apps.session_tracker import SESSION_TRACKER
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.cleanup_plan import CleanupPlan
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.cli.entry import app
from storekeeper.engine.runtime.topics import Topics
from storekeeper.program import ExitCode
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.rocksdb_sealed import open_sealed
from tests.cleanup.plans import PLAN
from tests.erasure.found import files_with, topics_with
from tests.snapshots.played_app import App

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("called_here")]

DEAD = "ticks-dlq"
"""A topic of the project in which nothing is erased."""
PARTITIONS = 4
AT_MS, HOUR_MS = 1_760_000_400_000, 3_600_000
ALICE, BOB = "alice-4836051607", "bob-4836051608"
OTHERS = {BOB: "bun", **{f"other-{number:03}": "rye" for number in range(50)}}
QUICKLY = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0", "delete.retention.ms": "8000"}


@dataclass(frozen=True)
class Case:
    """A store of a kind.

    Attributes:
        app, name: the store.
        word: the column that tells values apart.
        value: the other columns of a value.
        served: how nodes serve it, behind its changelog.
        path: where a node shows the rows of a key.
        row_keys: those rows.
    """

    app: AppSpec
    name: str
    word: str
    value: dict[str, Any]
    served: str = ""
    path: str = "keyvalue/{store}/{key}"
    row_keys: Callable[[str], Sequence[bytes]] = lambda key: (key.encode(),)

    @property
    def store(self) -> StoreSpec:
        return next(store for store in self.app.stores if store.name == self.name)

    def encode(self, word: str) -> bytes:
        return json.dumps({self.word: word, **self.value}).encode()

    def words(self, node: NodeProcess, key: str) -> set[str]:
        """What a node has of a key."""
        answer = node.get("/state/" + self.path.format(store=self.name, key=key))
        if answer.status_code == 404:
            assert answer.json()["type"] == "urn:storekeeper:problem:unknown-key"
            return set()
        assert answer.status_code == 200, answer.text
        rows = answer.json()
        return {row["value"][self.word] for row in (rows if isinstance(rows, list) else [rows])}


PRICES = Case(TICKS, "prices", "Symbol", {"Price": 7})
CASES = [
    PRICES,
    Case(
        SALES_WINDOWS,
        "sales",
        "StoreID",
        {"ItemCode": "1", "WindowStart": AT_MS, "WindowEnd": AT_MS + HOUR_MS, "Sales": 1, "Quantity": 2, "Amount": 3},
        ":window",
        "windowed/{store}/{key}/0/9999999999999",
        lambda key: [window_row_key(key.encode(), at_ms) for at_ms in (AT_MS, AT_MS + HOUR_MS)],
    ),
    Case(
        SESSION_TRACKER,
        "user-sessions",
        "UserID",
        {"SessionStart": AT_MS, "LastActivity": AT_MS + 5, "EventCount": 2},
        ":session",
        "sessions/{store}/{key}",
        lambda key: [session_row_key(key.encode(), at_ms, at_ms + 5) for at_ms in (AT_MS, AT_MS + HOUR_MS)],
    ),
    Case(
        LEADERBOARD,
        "players",
        "Name",
        {"PlayerID": "p", "HighScore": 9, "HighScoreProduct": "x", "GamesPlayed": 1, "TotalScore": 9, "LastPlayed": 1},
        ":ranked:HighScore",
    ),
]


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The store that the test is of."""
    found: Case = getattr(request, "param", PRICES)
    return found


@pytest.fixture
def played(broker: Broker, tmp_path: Path, case: Case) -> Iterator[App]:
    """The app of a store, which a test plays; two tables of it are there, with several versions."""
    topics = {case.store.changelog_topic: (PARTITIONS, QUICKLY), DEAD: (1, {"cleanup.policy": "delete"})}
    for topic, (partitions, config) in topics.items():
        with suppress(KafkaException):
            broker.delete_topic(topic)  # other tests of the session leave it behind
        broker.create_topic(topic, partitions, config)
    settings = AppSettings(run_dir=tmp_path / "run", kafka_bootstrap=broker.bootstrap)
    app = App(broker, settings, case.store, case.encode, case.row_keys)
    for number, changes in enumerate(({ALICE: "ale", **OTHERS}, {ALICE: "apple"}, {BOB: "bread"})):
        app.write(number, changes)
        app.commit(number)
        assert called(broker, tmp_path / "run", "snapshot", "create", case.name)[0] == 0
    yield app
    for topic in topics:
        broker.delete_topic(topic)


@pytest.fixture
def node(broker: Broker, played: App, case: Case, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that serves it."""
    served = f"{case.name}={played.store.changelog_topic}{case.served}"
    (one,) = make_nodes(broker, tmp_path / "run", served, names=["a"])
    one.start()
    one.wait_ready()
    yield one
    one.close()


def called(broker: Broker, run_dir: Path, *words: str, **settings: str) -> tuple[int, dict[str, Any], str]:
    environment = {"STOREKEEPER_RUN_DIR": str(run_dir), "STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap, **settings}
    done = CliRunner().invoke(app, [*words, "--output", "json"], env=environment, catch_exceptions=False)
    lines = done.stdout.splitlines()
    return done.exit_code, json.loads(lines[-1]) if lines and done.exit_code in {0, 4} else {}, done.stderr


def everything_with(key: str, run_dir: Path, case: Case, broker: Broker) -> list[str]:
    """Every file and store below the run directory, and every topic, with the bytes of a key."""
    topics = topics_with(key, broker.kafka, [case.store.changelog_topic, DEAD])
    return sorted([*files_with(key, run_dir), *topics])


def local_store(run_dir: Path, case: Case) -> Path:
    """A task's store that has the rows."""
    slot, partition = run_dir / "tasks" / case.app.name / "gen-1" / "slot", partition_for(ALICE.encode(), PARTITIONS)
    folder = slot / str(partition) / case.name
    store = open_sealed(folder, case.name)
    store.write([(row_key, case.encode("apple")) for row_key in case.row_keys(ALICE)])
    store.close()
    return folder


def archived(run_dir: Path, case: Case, broker: Broker, plan: CleanupPlan = PLAN) -> CleanupFolder:
    """A clean-up with the rows in its archive, by default one that can't be undone any more."""
    folder = CleanupFolder(run_dir / "cleanups" / case.name, case.name)
    folder.put_plan(plan)
    archive, partition = folder.archive(plan), partition_for(ALICE.encode(), PARTITIONS)
    archive.begin(0)
    changelog = Changelog(broker.kafka, case.store.changelog_topic)
    records = changelog.scan(partition, *changelog.committed(partition))
    archive.put(0, [record for record in records if record.key in case.row_keys(ALICE)])
    return folder


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.name,
            marks=[] if case is PRICES else pytest.mark.long("test_erasure.py erases prices"),
        )
        for case in CASES
    ],
    indirect=True,
)
def test_after_an_erasure_nothing_has_the_keys_bytes_but_what_the_certificate_lists(
    case: Case, played: App, node: NodeProcess, tmp_path: Path
) -> None:
    broker, run_dir, store, rows = played.broker, tmp_path / "run", case.name, len(case.row_keys(ALICE))
    config = Topics(broker.kafka).own_config(played.store.changelog_topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(DEAD, f"a bad record about {ALICE}", b"k")
    assert producer.flush(30) == 0
    folder, cleanups = local_store(run_dir, case), archived(run_dir, case, broker)
    peers = {"STOREKEEPER_PEERS": node.environment["STOREKEEPER_PEERS"]}
    assert case.words(node, ALICE) == {"apple"}
    before = files_with(ALICE, run_dir / "delta")
    assert {path.partition("/")[0] for path in before} >= {store, f"{store}_history"}

    code, plan, _ = called(broker, run_dir, "erase", store, ALICE, **peers)
    assert code == 0
    assert ALICE not in json.dumps(plan)
    assert sum(plan["records"].values()) == 2 * rows
    assert plan["hashes"] != [ALICE]
    said: list[str] = []

    def erased() -> dict[str, Any] | None:
        found, answer, error = called(
            broker, run_dir, "erase", store, "--run", plan["erasure_id"], "--wait", "5", **peers
        )
        said.append(error)
        assert found in {0, 75}, error
        assert len(said) < 60, said[-1]
        return answer if found == 0 else None

    certificate = eventually(erased, 240, "the erasure is complete")
    assert not folder.exists()
    assert cleanups.archive(PLAN).exists(0) is False
    assert case.words(node, ALICE) == set()
    assert case.words(node, BOB) == {"bread"}
    assert Topics(broker.kafka).own_config(played.store.changelog_topic) == config, "it is as it was before"
    assert certificate["no_record_found_of"] == []
    assert certificate["nodes"] == {"a": [partition_for(ALICE.encode(), PARTITIONS)]}
    assert certificate["found_elsewhere"] == [{"topic": DEAD, "partition": 0, "records": 1, "offsets": [0]}]
    node.close()
    assert everything_with(ALICE, run_dir, case, broker) == [DEAD]

    code, verdict, _ = called(broker, run_dir, "verify", store)
    assert (code, verdict["reasons"]) == (0, [])
    code, left, _ = called(broker, run_dir, "sql", f'SELECT count(*) AS n FROM "{store}"')  # noqa: S608
    assert left["n"] == rows * len(OTHERS)
    again = called(broker, run_dir, "erase", store, "--run", plan["erasure_id"], **peers)
    assert (again[0], again[1]) == (0, certificate)


def test_keys_come_from_a_condition_or_a_file(played: App, tmp_path: Path) -> None:
    run_dir, listed = tmp_path / "run", tmp_path / "keys.txt"
    listed.write_text(f"{BOB}\nother-001\n")
    for words, count in (
        (("--where", "Symbol = 'rye'"), len(OTHERS) - 1),
        (("--keys-file", str(listed)), 2),
        ((ALICE, ALICE, BOB), 2),
    ):
        code, plan, error = called(played.broker, run_dir, "erase", "prices", *words)
        assert (code, len(plan.get("hashes", ()))) == (0, count), error
    code, shown, _ = called(played.broker, run_dir, "erase", "prices", "--run", plan["erasure_id"], "--dry-run")
    assert (code, shown["text"]) == (0, plan["text"])
    assert (plan["unknown"], "No record was found" in plan["text"]) == ([], False)
    _, plan, _ = called(played.broker, run_dir, "erase", "prices", ALICE, "alice-misspelt")
    assert len(plan["unknown"]) == 1
    assert "**No record was found of 1 of 2 keys**" in plan["text"]
    assert called(played.broker, run_dir, "erase", "prices", "--where", "nonsense(")[0] == 2
    assert called(played.broker, run_dir, "erase", "prices")[0] == 2
    assert called(played.broker, run_dir, "erase", "prices", BOB, "--run", plan["erasure_id"])[0] == 2


def test_the_command_names_what_keeps_a_key_and_erases_nothing(played: App, tmp_path: Path) -> None:
    broker, run_dir, changelog = played.broker, tmp_path / "run", played.store.changelog_topic
    code, plan, _ = called(broker, run_dir, "erase", "prices", ALICE)
    assert code == 0
    before = Changelog(broker.kafka, changelog).committed_ends()

    def check_refused(why: str) -> None:
        for words in ((ALICE,), ("--run", plan["erasure_id"])):
            code, _, error = called(broker, run_dir, "erase", "prices", *words)
            assert code == ExitCode.REFUSED, error
            assert "nothing was erased: " in error
            assert why in error
        assert Changelog(broker.kafka, changelog).committed_ends() == before

    promise, folder = run_dir / "promises" / "prices" / "report.json", run_dir / "tasks" / "ticks" / "gen-7"
    promise.parent.mkdir(parents=True)
    promise.write_text('{"version": 1, "until_ms": null}')
    check_refused("report.json promises version 1 of table prices")
    promise.unlink()
    folder.mkdir(parents=True)
    check_refused("ticks/gen-7 of another generation is still there")
    folder.rmdir()
    broker.create_topic(f"{changelog}-g7")
    check_refused(f"changelog {changelog}-g7 of another generation is still there")
    broker.delete_topic(f"{changelog}-g7")
    archived(run_dir, PRICES, broker, replace(PLAN, undo_ms=10**14))
    check_refused(f"clean-up {PLAN.cleanup_id} of prices has rows of them archived, and can be undone until")
