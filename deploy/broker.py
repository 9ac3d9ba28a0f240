"""The embedded Kafka broker: one KRaft node, in one JVM, from the jars that Maven resolved.

To use your own cluster instead, set `STOREKEEPER_KAFKA_BOOTSTRAP` for apps and nodes. This one is the default, which
needs no installation.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.disk import check_not_full
from deploy.environment import java_command
from deploy.errors import NotSetUpError, StartError
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings

_FORMAT_TIMEOUT_S = 120

# A node that was killed is fenced until its old session ends: 9 s by default, 6 s here.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
log.dirs={data_dir}
num.partitions={partitions}
auto.create.topics.enable=false
message.max.bytes={max_message_bytes}
replica.fetch.max.bytes={max_message_bytes}
log.cleaner.dedupe.buffer.size=33554432
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def server_properties(layout: RunLayout, settings: PlatformSettings) -> str:
    """The text of `server.properties`."""
    return _PROPERTIES.format(
        port=settings.kafka_port,
        controller_port=settings.kafka_controller_port,
        data_dir=layout.kafka / "data",
        partitions=settings.topic_partitions,
        max_message_bytes=settings.max_message_bytes,
    )


def broker_command(layout: RunLayout, settings: PlatformSettings, environment: Mapping[str, str]) -> list[str]:
    """The argv of the broker. Its log goes to standard error, which the supervisor rotates."""
    return [
        *_java(settings, environment, f"-Xmx{settings.kafka_heap_mb}m"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "kafka.Kafka",
        str(layout.kafka / "server.properties"),
    ]


def prepare_broker(layout: RunLayout, settings: PlatformSettings, environment: Mapping[str, str]) -> None:
    """Writes the broker's configuration and formats its storage unless it is formatted. Safe to repeat.

    Raises:
        NotSetUpError: the jars are missing.
        StartError: the storage could not be formatted.
    """
    if not any((settings.jars_dir / "broker").glob("kafka_*.jar")):
        msg = f"The broker's jars are missing under {settings.jars_dir}: run `storekeeper jars`."
        raise NotSetUpError(msg)
    properties = layout.kafka / "server.properties"
    properties.write_text(server_properties(layout, settings), "utf-8")
    if (layout.kafka / "data" / "meta.properties").exists():
        return
    command = [
        *_java(settings, environment, "-Xmx128m"),
        *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
        *("-t", _new_cluster_id(), "-c", str(properties)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, env=dict(environment), check=False
    )
    if done.returncode != 0:
        # Java reports a full disk only as prose: check the disk before blaming the broker.
        check_not_full(layout.kafka)
        cause = (done.stderr.strip().splitlines() or ["no output"])[-1]
        msg = f"Kafka's storage under {layout.kafka} could not be formatted ({cause}): remove it and try again."
        raise StartError(msg)


def answers(bootstrap: str, timeout_s: float = 2.0) -> bool:
    """Whether a broker answers at `bootstrap` within `timeout_s`."""
    try:
        admin_client(bootstrap).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def admin_client(bootstrap: str) -> AdminClient:
    """An admin client that doesn't log connections that fail while a broker starts."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500})


def _java(settings: PlatformSettings, environment: Mapping[str, str], *options: str) -> list[str]:
    return [java_command(environment), "-XX:+UseSerialGC", *options, "-cp", f"{settings.jars_dir / 'broker'}/*"]


def _new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
