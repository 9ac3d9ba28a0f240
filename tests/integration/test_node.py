"""Two nodes as real processes over a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner, Result

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.sigstop_pause import sigstop_pause
from harness.waiting import eventually
from storekeeper.changelog.partitioner import partition_for
from storekeeper.cli.entry import app
from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.clock import SystemClock
from storekeeper.errors import UnknownStoreError
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import ANONYMOUS, HopSigner
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.collect import Nodes, collect
from storekeeper.ops.overview.model import Placement
from tests.refused_node import refused_here

pytestmark = pytest.mark.broker

ROWS = {f"{number:04d}": {"CustomerCardNo": f"{number:04d}", "TotalLoyaltyPoints": number} for number in range(500)}
SHARED_PAIR = "shared-pair-changelog"
CHANGED_PAIR = "changed-pair-changelog"
CHANGED_SPLIT = "changed-split-changelog"
Two = tuple[NodeProcess, NodeProcess]


def _encoded(rows: dict[str, dict[str, object]]) -> list[tuple[bytes, bytes | None]]:
    return [(key.encode(), json.dumps(value).encode()) for key, value in rows.items()]


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"{request.node.name}-changelog".replace("[", "-").replace("]", "")
    broker.create_topic(name, config=COMPACTED)
    return name


@contextmanager
def pair_of(broker: Broker, topic: str, run_dir: Path) -> Iterator[Two]:
    """Two ready nodes, each holding every partition, and 500 rows."""
    longest_key = {"storekeeper.node.query.reads.pages:QueryLimits.max_key_bytes": 1000}
    write(broker, topic, _encoded(ROWS))
    one, other = make_nodes(broker, run_dir, f"rewards={topic}", constants=longest_key)
    with started([one, other]):
        for node in (one, other):
            node.wait_ready()
        yield one, other


@contextmanager
def split_of(broker: Broker, topic: str, run_dir: Path) -> Iterator[Two]:
    """Two ready nodes that share the partitions: no standby, so each must ask the other."""
    short = {"storekeeper.node.query.forwarding:FORWARD_TIMEOUT_MS": 1500}
    write(broker, topic, _encoded(ROWS))
    one, other = make_nodes(broker, run_dir, f"rewards={topic}", replicas=0, constants=short)
    with started([one, other]):
        for node in (one, other):
            node.wait_ready()
        yield one, other


@pytest.fixture(scope="module")
def pair(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """For tests that change rows, each its own, and that leave both nodes running."""
    broker.create_topic(CHANGED_PAIR, config=COMPACTED)
    with pair_of(broker, CHANGED_PAIR, tmp_path_factory.mktemp("changed-pair")) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def split(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """For tests that add rows, each its own."""
    broker.create_topic(CHANGED_SPLIT, config=COMPACTED)
    with split_of(broker, CHANGED_SPLIT, tmp_path_factory.mktemp("changed-split")) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def shared_pair(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """For tests that leave nodes and rows as they were."""
    broker.create_topic(SHARED_PAIR, config=COMPACTED)
    with pair_of(broker, SHARED_PAIR, tmp_path_factory.mktemp("pair")) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def shared_split(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """For tests that leave both nodes running, and the rows as they were."""
    broker.create_topic("shared-split-changelog", config=COMPACTED)
    with split_of(broker, "shared-split-changelog", tmp_path_factory.mktemp("split")) as nodes:
        yield nodes


def test_every_row_is_served_as_json_and_its_origin_is_told(shared_pair: Two) -> None:
    for node in shared_pair:
        answer = node.get("/state/keyvalue/rewards/0042")
        assert answer.status_code == 200
        assert answer.json() == {"key": "0042", "value": ROWS["0042"]}
        assert answer.headers["storekeeper-served-by"] == node.name
        assert answer.headers["storekeeper-role"] in {"active", "standby"}
        assert answer.headers["storekeeper-offset-lag"] == "0"
    roles = [node.get("/state/keyvalue/rewards/0042").headers["storekeeper-role"] for node in shared_pair]
    assert sorted(roles) == ["active", "standby"]


def test_an_unknown_store_and_an_unknown_key_are_told_apart(shared_pair: Two) -> None:
    types = [
        shared_pair[0].get(path).json()["type"].rpartition(":")[2]
        for path in ("/state/keyvalue/nowhere/0042", "/state/keyvalue/rewards/nobody", "/nothing/here")
    ]
    assert types == ["unknown-store", "unknown-key", "unknown-route"]


def test_updates_and_deletions_arrive(broker: Broker, pair: Two) -> None:
    write(broker, CHANGED_PAIR, [(b"0001", b'{"TotalLoyaltyPoints": 12.0300}'), (b"0002", None)])
    for node in pair:
        eventually(lambda node=node: node.value("0002") is None, 60, "the deletion arrives")  # type: ignore[misc]
        eventually(
            lambda node=node: b"12.0300" in node.get("/state/keyvalue/rewards/0001").content,  # type: ignore[misc]
            60,
            "the update arrives, with its digits",
        )


def test_a_killed_node_starts_again_without_replay(broker: Broker, pair: Two) -> None:
    one, other = pair
    one.kill()
    write(broker, CHANGED_PAIR, [(b"0007", b'{"TotalLoyaltyPoints": 70000}')])
    assert other.value("0008") == ROWS["0008"], "the other node answers meanwhile"

    one.start()
    one.wait_ready()

    assert one.value("0007") == {"TotalLoyaltyPoints": 70000}
    assert one.value("0008") == ROWS["0008"]
    assert sum(replica["restored_records"] for replica in one.replicas().values()) == 1
    assert not one.events("replica_wiped")


def test_keys_of_other_nodes_are_forwarded(shared_split: Two) -> None:
    for node in shared_split:
        served_by = set()
        for key, value in ROWS.items():
            answer = node.get(f"/state/keyvalue/rewards/{key}")
            assert answer.json() == {"key": key, "value": value}
            served_by.add(answer.headers["storekeeper-served-by"])
        assert served_by == {"a", "b"}
        shown = CliRunner().invoke(app, ["stores", "--nodes", "--node", node.address]).stdout
        for each in shared_split:
            (row,) = [line.split() for line in shown.splitlines() if each.address in line]
            assert row == [each.name, each.address, "-", "alive", "2", "0"]


def test_a_forwarded_request_is_never_sent_on(shared_split: Two) -> None:
    one, _ = shared_split
    held = set(one.replicas())
    foreign = next(key for key in ROWS if partition_for(key.encode(), 4) not in held)
    path = f"/state/keyvalue/rewards/{foreign}"
    secret = load_cluster_secret(Path(one.environment["STOREKEEPER_RUN_DIR"]) / "secrets" / "cluster.key")
    headers = HopSigner("b", secret, SystemClock(), lambda: ANONYMOUS)("a", "GET", path, b"", 1000)
    answer = one.get(path, headers=dict(headers))
    assert answer.status_code == 421
    assert answer.json()["type"] == "urn:storekeeper:problem:not-held"


def test_what_a_dead_node_held_is_unavailable_never_missing(shared_split: Two) -> None:
    one, other = shared_split
    held = set(one.replicas())
    mine = next(key for key in ROWS if partition_for(key.encode(), 4) in held)
    theirs = next(key for key in ROWS if partition_for(key.encode(), 4) not in held)
    other.kill()

    assert one.value(mine) == ROWS[mine]
    answer = one.get(f"/state/keyvalue/rewards/{theirs}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    everything = one.get("/state/keyvalues/rewards/all")
    assert everything.status_code == 503
    partial = one.get("/state/keyvalues/rewards/all?partial=ok&limit=1000")
    assert partial.headers["storekeeper-complete"] == "false"
    assert {row["key"] for row in partial.json()} == {key for key in ROWS if partition_for(key.encode(), 4) in held}

    other.start()
    other.wait_ready()
    assert eventually(lambda: one.status(f"/state/keyvalue/rewards/{theirs}") == 200, 60, "it is asked again")


def test_a_node_that_hangs_is_given_up_within_the_deadline(shared_split: Two) -> None:
    one, other = shared_split
    theirs = next(key for key in ROWS if partition_for(key.encode(), 4) not in set(one.replicas()))
    with sigstop_pause(other.pid):
        assert one.get(f"/state/keyvalue/rewards/{theirs}").status_code == 503
    assert eventually(lambda: one.status(f"/state/keyvalue/rewards/{theirs}") == 200, 60, "it is asked again")


def test_the_overview_misses_a_frozen_node_by_its_name(shared_pair: Two, tmp_path: Path) -> None:
    names = {node.address: node.name for node in shared_pair}
    limits = ClientLimits(timeout_s=5)  # a busy machine may need a second to connect, which would be another state
    nodes = Nodes(lambda: StateClient(list(names), limits=limits), Placement(names, standbys=1))
    (rewards,) = collect(RunLayout(tmp_path), SystemClock(), nodes=nodes).stores
    assert (rewards.serving, rewards.replicas) == (8, 8)
    with sigstop_pause(shared_pair[1].pid):
        seen = collect(RunLayout(tmp_path), SystemClock(), nodes=nodes)
    (rewards,) = seen.stores
    assert (rewards.serving, rewards.replicas) == (4, 8)
    assert sorted((node.node, node.state) for node in seen.nodes) == [("a", "answers"), ("b", "hangs")]


def test_a_node_that_hangs_for_long_is_missing_and_comes_back(pair: Two) -> None:
    one, other = pair

    def missing() -> list[str]:
        return [member["name"] for member in one.get("/state/cluster").json()["missing"]]

    assert missing() == []
    with sigstop_pause(other.pid):
        assert eventually(lambda: missing() == [other.name], 60, "others took over")
    assert eventually(lambda: missing() == [], 60, "it is back")
    other.wait_ready()


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_pages_from_both_nodes_make_up_the_whole_store_in_order(shared_split: Two, limit: int) -> None:
    expected = list(ROWS.items()) if limit > 1 else list(ROWS.items())[:20]
    with StateClient(shared_split[0].address) as client:
        rows = iter(client.key_value("rewards").all(page_rows=limit))
        assert [next(rows) for _ in expected] == expected
        if limit > 1:
            assert next(rows, None) is None


def test_a_range_includes_both_ends(shared_split: Two) -> None:
    with StateClient([node.address for node in shared_split]) as client:
        keys = [key for key, _ in client.key_value("rewards").range("0010", "0020", page_rows=4)]
        assert keys == [f"{number:04d}" for number in range(10, 21)]
        assert list(client.key_value("rewards").range("0020", "0010")) == []
        with pytest.raises(UnknownStoreError):
            client.key_value("nowhere").get("k")
        assert client.key_value("rewards").get("nobody").value is None


def test_a_cursor_goes_on_at_another_node(shared_split: Two) -> None:
    one, other = shared_split
    first = one.get("/state/keyvalues/rewards/all?limit=2")
    cursor = first.headers["storekeeper-next-cursor"]
    second = other.get(f"/state/keyvalues/rewards/all?limit=2&cursor={cursor}")
    assert [row["key"] for row in first.json() + second.json()] == ["0000", "0001", "0002", "0003"]
    assert second.headers["link"].startswith("</state/keyvalues/rewards/all?limit=2&cursor=")
    assert other.get(f"/state/keyvalues/rewards/range/0000/0400?cursor={cursor}").status_code == 400
    assert other.get("/state/keyvalues/rewards/all?cursor=AAAA").status_code == 400


def test_odd_keys(broker: Broker, split: Two) -> None:
    keys = ["a/b", "a%2Fb", "100%", "käse", "顧客", "with space", "?x=1&y", "a//b", "/", "+"]
    write(broker, CHANGED_SPLIT, [(key.encode(), json.dumps(key).encode()) for key in keys])
    for node in split:
        for key in keys:
            encoded = quote(key, safe="")
            path = f"/state/keyvalue/rewards/{encoded}"
            eventually(lambda: node.status(path) == 200, 60, f"{key!r} arrives")  # noqa: B023
            assert node.get(f"/state/keyvalue/rewards/{encoded}").json() == {"key": key, "value": key}
            row = node.get(f"/state/keyvalues/rewards/range/{encoded}/{encoded}").json()
            assert row == [{"key": key, "value": key}]
            assert node.get(f"/state/instance/rewards/{encoded}").status_code == 200


def test_keys_that_no_path_can_hold(broker: Broker, split: Two) -> None:
    keys = [b".", b"..", b"\xff\x00\xfe"]
    write(broker, CHANGED_SPLIT, [(key, b"7") for key in keys])
    for node in split:
        with StateClient(node.address) as client:
            rewards = client.key_value("rewards")
            for key in keys:
                assert eventually(lambda: rewards.get(key).value, 60, f"{key!r} arrives") == 7  # noqa: B023
                assert [value for _, value in rewards.range(key, key)] == [7]
    (row,) = split[0].get("/state/keyvalues/rewards/range/%FF%00%FE/%FF%00%FE").json()
    assert row == {"key": "_wD-", "key_format": "base64url", "value": 7}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"listen_host": "0.0.0.0"}, "loopback"),  # noqa: S104 - the refusal is the point
        ({"replicas": "many"}, "STOREKEEPER_REPLICAS"),
        ({"stores": "rewards"}, "name=topic"),
        ({"stores": "../x=topic"}, "can't be a name"),
        ({"peers": "b=http://127.0.0.1:1"}, "not among `peers`"),
        ({"peers": "a=http://user:pw@127.0.0.1:1"}, "http://host:port"),
    ],
)
def test_settings_that_cannot_work_end_with_78_and_a_sentence(
    broker: Broker, tmp_path: Path, settings: dict[str, str], told: str
) -> None:
    (node,) = make_nodes(broker, tmp_path, "rewards=t", names="a", **settings)
    code, output = refused_here(node)
    assert code == 78
    assert told in output
    assert "Traceback" not in output
    assert len(output.splitlines()) == 1


def test_a_refused_process_writes_one_line(broker: Broker, tmp_path: Path) -> None:
    (node,) = make_nodes(broker, tmp_path, "rewards", names="a")
    node.start()
    assert node.wait_exit() == 78
    (line,) = node.log_path.read_text().splitlines()
    assert "name=topic" in line


def test_a_taken_port_is_told_in_a_sentence(shared_pair: Two, tmp_path: Path) -> None:
    one, _ = shared_pair
    twin = NodeProcess(
        "a", one.address, {**one.environment, "STOREKEEPER_RUN_DIR": str(tmp_path / "other")}, tmp_path / "twin.log"
    )
    twin.start()
    assert twin.wait_exit() == 1
    assert "Traceback" not in twin.log_path.read_text()


def test_the_other_routes(shared_pair: Two) -> None:
    one, _ = shared_pair
    names = [instance["storeNames"] for instance in one.get("/state/instances").json()]
    assert names == [["rewards"], ["rewards"]]
    assert len(one.get("/state/instances/rewards").json()) == 2
    assert one.get("/state/instances/nowhere").status_code == 404
    assert one.get("/state/instance/rewards/0042").json()["storeNames"] == ["rewards"]
    (store,) = one.get("/state/stores").json()
    assert (store["topic"], store["partitions"], store["backend"]) == (SHARED_PAIR, 4, "rocksdb")
    assert sorted(store["active"] + store["standby"]) == [0, 1, 2, 3]
    assert "approximate_num_entries" not in store, "nobody counts the rows of a store that changes"
    assert "estimated_keys" not in one.get("/metrics").text
    assert one.status("/state/keyvalues/rewards/count") == 404
    assert len(one.get("/readyz?verbose").json()["replicas"]) == 4
    assert one.get("/healthcheck").json()["isHealthy"] is True
    assert one.status("/docs") == 200
    assert "state_standby_lag_records" in one.get("/metrics").text
    assert one.get("/state/keyvalues/rewards/all?limit=1001").status_code == 400
    assert one.get("/state/keyvalues/rewards/all?limit=0").status_code == 400
    assert one.get(f"/state/keyvalue/rewards/{'x' * 1000}").status_code == 404
    assert one.get(f"/state/keyvalue/rewards/{'x' * 1001}").status_code == 414


def test_the_command_line_asks_nodes(shared_pair: Two) -> None:
    def command(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments)

    node = ("--node", shared_pair[0].address)
    found = command("get", "rewards", "0042", *node)
    assert json.loads(found.stdout) == ROWS["0042"]
    assert "from a (" in found.stderr or "from b (" in found.stderr
    missing = command("get", "rewards", "nobody", *node)
    assert (missing.exit_code, missing.stdout) == (3, "")
    unknown = command("get", "nowhere", "0042", *node)
    assert (unknown.exit_code, "Traceback" in unknown.stderr) == (78, False)
    assert "nowhere" in unknown.stderr
    rows = command("get", "rewards", "--from", "0498", "--output", "json", *node).stdout.splitlines()
    assert [json.loads(row)["key"] for row in rows] == ["0498", "0499"]
    assert len(command("get", "rewards", "--limit", "7", "--output", "json", *node).stdout.splitlines()) == 7
    lag = command("stores", "--replicas", "--output", "json", *node)
    lags = [json.loads(line)["offset_lag"] for line in lag.stdout.splitlines()]
    assert (lag.exit_code, lags) == (0, [0] * 8), "of both nodes, though one was named"
    assert "rocksdb" in command("stores", *node).stdout


def test_a_node_outlives_its_broker(broker: Broker, pair: Two) -> None:
    one, _ = pair
    broker.kill()
    try:
        assert one.value("0042") == ROWS["0042"]
        assert one.status("/readyz") == 200
        assert one.status("/livez") == 200
    finally:
        broker.start()
    write(broker, CHANGED_PAIR, [(b"0042", b'"after"')])
    assert eventually(lambda: one.value("0042") == "after", 60, "it follows again")
    assert not one.events("replica_wiped")


@pytest.mark.long("test_node.py takes the broker from a node that runs")
def test_a_node_started_without_broker_waits_for_it(
    broker: Broker, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write(broker, topic, _encoded(ROWS))
    (node,) = make_nodes(broker, tmp_path / "run", f"rewards={topic}", names="a")
    request.addfinalizer(node.close)
    broker.kill()
    try:
        node.start()
        eventually(lambda: node.status("/livez") == 200, 30, "it is alive")
        answer = node.get("/state/keyvalue/rewards/0042")
        assert (node.status("/readyz"), answer.status_code) == (503, 503)
        assert answer.json()["type"] == "urn:storekeeper:problem:restoring"
    finally:
        broker.start()
    node.wait_ready()
    assert node.value("0042") == ROWS["0042"]
    assert node.stop() == 0
