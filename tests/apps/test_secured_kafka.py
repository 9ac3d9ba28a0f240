"""An app, a query node and a batch job on a Kafka that has TLS, logins and ACLs alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from harness.acls import bindings, with_prefix
from harness.node_process import make_nodes
from harness.secured_broker import PASSWORD, USER, SecuredBroker
from harness.token_issuer import SECRET
from harness.waiting import eventually
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import topology_app
from storekeeper.changelog.bounded_reader import stable_bounds
from storekeeper.cleanup.cleanup import Cleanup
from storekeeper.cleanup.cleanup_plan import CleanupOptions
from storekeeper.cleanup.conditional_write import KafkaTentativeLog
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka
from storekeeper.names import node_group
from storekeeper.ops.kafka.check import check_clock, check_kafka
from storekeeper.ops.kafka.rights import acl_commands, rights_of
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import make_topics
from storekeeper.snapshots.changes import ChangelogRange, read_changelog
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CHANGELOG = "counted-totals-changelog"
PARTITIONS = 2
NOW_MS = int(time.time() * 1000) - 3_600_000


def allow(broker: SecuredBroker, user: str, run: SparkRun, apps: Iterable[AppSpec]) -> None:
    """Gives a user what the commands for an administrator say."""
    rights = rights_of(apps, run.settings)
    broker.allow(bindings(acl_commands(rights, user)))


LOGINS: dict[str, tuple[str, Callable[[SecuredBroker], Kafka]]] = {
    "password": (f"User:{USER}", lambda broker: broker.with_password(USER)),
    "certificate": ("User:CN=counter", lambda broker: broker.with_certificate("counter")),
    "token": ("User:counter", lambda broker: broker.with_token("counter")),
}


_LONG = pytest.mark.long("test_secured_kafka.py has the certificate, test_access.py each way to log in")


@pytest.mark.parametrize(
    "login", [pytest.param(login, marks=[] if login == "certificate" else _LONG) for login in LOGINS]
)
def test_all_work_with_the_least_acls(
    secured_broker: SecuredBroker, spark_session: SparkSession, tmp_path: Path, login: str
) -> None:
    user, make = LOGINS[login]
    kafka = make(secured_broker)
    run = SparkRun("counted", topologies.counted, secured_broker.broker, spark_session, tmp_path / "run", kafka=kafka)
    allow(secured_broker, user, run, [run.context.spec])
    try:
        run.make_topics({"counted-events": PARTITIONS, "counted-out": 1})
        run.produce("counted-events", [(b"a", b"1", NOW_MS), (b"a", b"2", NOW_MS + 1), (b"x", b"bad", NOW_MS + 2)])
        run.run()
        assert {key: orjson.loads(row)["total"] for key, row in run.rows(CHANGELOG).items()} == {b"a": 3}
        assert len(run.records("counted-dlq")) == 1
        _check_batch_job(spark_session, run)
        _check_node(secured_broker, kafka, tmp_path / "nodes", f"by-{login}", CHANGELOG)
    finally:
        secured_broker.forbid_all(user)


def _check_batch_job(spark: SparkSession, run: SparkRun) -> None:
    ends = Topics(run.settings.kafka).end([CHANGELOG]).offsets[CHANGELOG]
    frame = read_changelog(spark, run.settings, ChangelogRange(CHANGELOG, dict.fromkeys(ends, 0), ends))
    assert [bytes(row["_key"]) for row in frame.select("_key").distinct().collect()] == [b"a"]
    plan = frame._jdf.queryExecution().toString()
    assert PASSWORD not in plan
    assert SECRET not in plan


def _check_node(broker: SecuredBroker, kafka: Kafka, folder: Path, name: str, changelog: str) -> None:
    [node] = make_nodes(
        broker.broker,
        folder,
        f"totals={changelog}",
        names=[name],
        constants={"storekeeper.node.replicas.group_offsets:COMMIT_EVERY_S": 0.2},
        kafka_bootstrap=kafka.bootstrap,
        kafka_properties=kafka.properties,
        cluster=kafka.cluster,
    )
    node.start()
    try:
        node.wait_ready()
        assert node.value("a", "totals")["total"] == 3
        group = node_group(kafka.cluster, name)
        eventually(lambda: _lag(broker, group, changelog) == 0, 60, "a lag tool sees that the node is caught up")
    finally:
        node.close()
    assert PASSWORD not in node.log_path.read_text()


def _lag(broker: SecuredBroker, group: str, changelog: str) -> int | None:
    committed = broker.broker.committed(group, changelog, PARTITIONS)
    if len(committed) < PARTITIONS:
        return None
    return sum(stable_bounds(broker.broker.kafka, changelog, at)[1] - offset for at, offset in committed.items())


TEAM, TEAM_USER = "till-team.", "User:CN=till-team"
TEAMS_CHANGELOG = "till-team.points-totals-changelog"


def test_a_team_whose_names_have_one_prefix_runs_its_own_app(
    secured_broker: SecuredBroker, spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = f"{TEAM}query"
    monkeypatch.setenv("STOREKEEPER_CLUSTER", cluster)
    kafka = replace(secured_broker.with_certificate("till-team"), cluster=cluster)
    secured_broker.allow(with_prefix(TEAM_USER, TEAM, ["purchases"]))
    secured_broker.broker.create_topic("purchases", PARTITIONS)
    settings = PlatformSettings.load(kafka_bootstrap=kafka.bootstrap, kafka_properties=kafka.properties)
    name, describe = f"{TEAM}points", topologies.of_a_team
    run = SparkRun(name, describe, secured_broker.broker, spark_session, tmp_path / "run", kafka=kafka)
    try:
        assert list(check_kafka(settings, [run.context.spec]))[-1] == "transactions and groups work"
        made = make_topics(settings, [run.context.spec])
        assert check_clock(settings).startswith("the clock differs")
        run.produce("purchases", [(b"a", b"1", NOW_MS), (b"a", b"2", NOW_MS + 1), (b"x", b"bad", NOW_MS + 2)])
        run.run()
        assert [orjson.loads(row or b"")["total"] for *_, row, _ in run.records(f"{name}-out")] == [1, 3]
        assert [key for _, key, _, _ in run.records(f"{name}-dlq")] == [b"x"]
        assert run.rows(f"{name}-initials-changelog") == {b"a": b"2"}
        _check_node(secured_broker, kafka, tmp_path / "nodes", "a", TEAMS_CHANGELOG)
        _check_cleanup(kafka, tmp_path / "cleanups")
        assert run.rows(TEAMS_CHANGELOG) == {}
        known = set(Topics(kafka).names())
        assert set(made) < known
        assert {topic for topic in known if not topic.startswith(TEAM)} == {"purchases"}, "it sees no other"

        refused = f"doesn't allow {TEAM_USER} the operation"
        with pytest.raises(ConfigurationError, match=f"{refused} Write on transactional id purchases-cleanup"):
            KafkaTentativeLog(kafka, "purchases")
        stranger = topology_app("points", describe, title="Points")
        with pytest.raises(ConfigurationError, match=f"{refused} Read on topic points-dlq"):
            list(check_kafka(settings, [stranger]))
        monkeypatch.delenv("STOREKEEPER_CLUSTER")
        strangers = PlatformSettings.load(kafka_bootstrap=kafka.bootstrap, kafka_properties=kafka.properties)
        with pytest.raises(ConfigurationError, match=f"{refused} Read on topic storekeeper-members"):
            list(check_kafka(strangers, [run.context.spec]))
    finally:
        secured_broker.forbid_all(TEAM_USER)


def _check_cleanup(kafka: Kafka, folder: Path) -> None:
    wait = threading.Event().wait
    kept = CleanupFolder(folder, "totals")
    clock = SystemClock()
    cleanup = Cleanup(kafka, kept, "totals", TEAMS_CHANGELOG, clock=clock, wait=wait, times=clock.now_ms)
    plan = cleanup.preview(CleanupOptions(ttl_ms=60_000, canary_share=0))
    cleanup.archive(plan)
    assert cleanup.delete(plan).deleted == 1


def test_a_node_with_a_wrong_password_ends_with_one_sentence_and_78(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    kafka = secured_broker.with_password("nobody", "a wrong one")
    [node] = make_nodes(secured_broker.broker, tmp_path, "s=t", names=["a"], kafka_properties=kafka.properties)
    node.start()
    assert node.wait_exit() == 78
    assert "refuses the login of User:nobody" in node.last_words
    assert "a wrong one" not in node.last_words
