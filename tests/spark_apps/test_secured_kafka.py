"""An app, a query node and a batch job on a Kafka that has TLS, logins and ACLs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from deploy.kafka.rights import acl_commands, rights_of
from harness.acls import bindings
from harness.node_process import make_nodes
from harness.secured_broker import PASSWORD, USER, SecuredBroker
from harness.token_issuer import SECRET
from harness.waiting import eventually
from spark_apps.runtime.topics import Topics
from spark_apps.snapshot.changes import read_changelog
from spark_apps.snapshot.cut import ChangelogRange
from spark_apps.spec import AppSpec
from state.changelog.bounded_reader import bounds_of
from state.kafka.connection import Kafka
from state.names import node_group
from tests.spark_apps.engine import topologies
from tests.spark_apps.engine.spark_run import SparkRun

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
        run.run_batch()
        assert {key: orjson.loads(row)["total"] for key, row in run.rows(CHANGELOG).items()} == {b"a": 3}
        assert len(run.records("counted-dlq")) == 1
        _check_batch_job(spark_session, run)
        _check_node(secured_broker, kafka, tmp_path / "nodes", f"by-{login}")
    finally:
        secured_broker.forbid_all(user)


def _check_batch_job(spark: SparkSession, run: SparkRun) -> None:
    ends = Topics(run.settings.kafka).end([CHANGELOG]).offsets[CHANGELOG]
    frame = read_changelog(spark, run.settings, ChangelogRange(CHANGELOG, dict.fromkeys(ends, 0), ends))
    assert [bytes(row["_key"]) for row in frame.select("_key").distinct().collect()] == [b"a"]
    plan = frame._jdf.queryExecution().toString()
    assert PASSWORD not in plan
    assert SECRET not in plan


def _check_node(broker: SecuredBroker, kafka: Kafka, folder: Path, name: str) -> None:
    [node] = make_nodes(
        broker.broker,
        folder,
        f"totals={CHANGELOG}",
        names=[name],
        constants={"state.replicas.group_offsets:COMMIT_EVERY_S": 0.2},
        kafka_bootstrap=kafka.bootstrap,
        kafka_properties=kafka.properties,
    )
    node.start()
    try:
        node.wait_ready()
        assert node.value("a", "totals")["total"] == 3
        group = node_group(kafka.cluster, name)
        eventually(lambda: _lag(broker, group) == 0, 60, "a lag tool sees that the node is caught up")
    finally:
        node.close()
    assert PASSWORD not in node.log_path.read_text()


def _lag(broker: SecuredBroker, group: str) -> int | None:
    committed = broker.broker.committed(group, CHANGELOG, PARTITIONS)
    if len(committed) < PARTITIONS:
        return None
    return sum(bounds_of(broker.broker.kafka, CHANGELOG, at)[1] - offset for at, offset in committed.items())


def test_a_node_with_a_wrong_password_ends_with_one_sentence_and_78(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    kafka = secured_broker.with_password("nobody", "a wrong one")
    [node] = make_nodes(secured_broker.broker, tmp_path, "s=t", names=["a"], kafka_properties=kafka.properties)
    node.start()
    assert node.wait_exit() == 78
    assert "refuses the login of User:nobody" in node.last_words
    assert "a wrong one" not in node.last_words
