"""A real Kafka broker in KRaft mode for tests: one JVM from the project's jars, on free ports, in a given folder."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.changelog.log_bounds import END, log_offsets, offset_client
from storekeeper.kafka.clients import new_group_committer
from storekeeper.kafka.connection import Kafka
from storekeeper.kafka.properties import read_properties
from storekeeper.ops.broker import broker_command, broker_java, format_command, server_properties

JARS = Path(__file__).resolve().parents[1] / ".jars" / "broker"
QUICK_START = ("-Xms128m", "-Xmx512m", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that starts fast and is done soon."""
_START_TIMEOUT_S = 90
FOR_TESTS: Mapping[str, str | int] = {
    "num.partitions": 4,
    # Most of the time a broker waits, beside tests that don't: it looks for records to clean once a second, and writes
    # nothing while nothing happens.
    "log.cleaner.backoff.ms": 1000,
    "metadata.max.idle.interval.ms": 0,
    "log.retention.ms": -1,
    "controlled.shutdown.enable": "false",
}


@dataclass(slots=True)
class Broker:
    """One broker process. `stop`, `kill` and `restart` keep its data and its address.

    Attributes:
        folder: its data and its log.
        bootstrap: its address.
        properties: the file of properties that its administrator's clients have; None if clients need none.
        detour_port, detour_target: it also listens at the target, and says that clients who came there find it at the
            port: a proxy between the two can cut them off.
    """

    folder: Path
    bootstrap: str
    detour_port: int
    detour_target: int
    java_options: tuple[str, ...] = QUICK_START
    properties: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def kafka(self) -> Kafka:
        """The same for the product's clients."""
        return Kafka(self.bootstrap, self.properties)

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                broker_command(_java(*self.java_options), self.folder / "server.properties"),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            self.admin().list_topics(timeout=_START_TIMEOUT_S)
        except KafkaException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends the process with TERM and waits for it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process with KILL and waits for it: what it had not synced stays in the page cache."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Starts it again on the same ports and data; stops it first if it runs."""
        self.stop()
        self.start()

    def admin(self) -> AdminClient:
        """A new admin client that reconnects quickly."""
        return AdminClient(
            {
                **({} if self.properties is None else read_properties(self.properties)),
                "bootstrap.servers": self.bootstrap,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def create_topic(self, name: str, partitions: int = 4, config: Mapping[str, str] | None = None) -> None:
        """Creates a topic and waits until it can be read and written: on a busy machine leaders take a while."""
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(timeout=30)
        self._await_leaders(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions, `partitions` in all, and waits until they can be read and written."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(timeout=30)
        self._await_leaders(name, partitions)

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Sets settings of a topic, and leaves its others as they are."""
        entries = [ConfigEntry(*item, incremental_operation=AlterConfigOpType.SET) for item in config.items()]
        topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        admin = self.admin()  # it must live until the answer is there
        admin.incremental_alter_configs([topic])[topic].result(timeout=30)

    def delete_records(self, name: str, partition: int, below: int) -> None:
        """Deletes the first records of a partition, also of a compacted topic, whose policy is changed for that."""
        admin = self.admin()
        self.configure_topic(name, {"cleanup.policy": "compact,delete"})

        def deleted() -> bool:
            [done] = admin.delete_records([TopicPartition(name, partition, below)]).values()
            try:
                done.result(timeout=30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                    raise
                return False  # the partition has not heard of its topic's new policy yet
            return True

        eventually(deleted, 30, f"the first records of {name}-{partition} are deleted")

    def _await_leaders(self, name: str, partitions: int) -> None:
        ends = {(name, partition): END for partition in range(partitions)}

        def led() -> bool:
            try:
                return log_offsets(client, ends, 30).keys() == ends.keys()
            except KafkaException:
                return False

        with closing(offset_client(self.kafka)) as client:
            eventually(led, 30, f"every partition of {name} has a leader")

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and waits until it is gone."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(timeout=30)

    def committed(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """The committed offsets of a group, by partition of a topic. None as long as the broker has no coordinator."""
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        with closing(new_group_committer(self.kafka, group)) as consumer:
            try:
                found = consumer.committed(asked, timeout=30)
            except KafkaException as error:
                if error.args[0].code() in {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE}:
                    return {}
                raise
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def format_storage(properties: Path, *options: str) -> None:
    """Formats the storage of a broker with these properties, with more options of Kafka's tool."""
    command = [*format_command(_java(*QUICK_START), properties), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def start_broker(
    folder: Path, java_options: tuple[str, ...] = QUICK_START, *, session_timeout_ms: int = 4000
) -> Broker:
    """Formats `folder` for a broker with a cluster of its own and starts it. The caller stops it.

    A broker whose controller hasn't heard of it for `session_timeout_ms` has no partitions until it has: that happens
    where it gets no processor for so long. One that was killed is back only after that time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, controller_port, detour_port, detour_target = free_ports(4)
    properties = folder / "server.properties"
    listeners = {
        "listeners": (
            f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},DETOUR://127.0.0.1:{detour_target}"
        ),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},DETOUR://127.0.0.1:{detour_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,DETOUR:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    sessions = {"broker.session.timeout.ms": session_timeout_ms}
    more = {**FOR_TESTS, **listeners, **sessions}
    properties.write_text(server_properties(folder / "log", port, controller_port, more))
    format_storage(properties)
    broker = Broker(folder, f"127.0.0.1:{port}", detour_port, detour_target, java_options)
    broker.start()
    return broker


def _java(*options: str) -> list[str]:
    return broker_java("java", JARS, *options)
