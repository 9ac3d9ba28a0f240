"""The embedded Kafka broker: one KRaft node, in one JVM, from the jars that Maven resolved.

To use your own cluster instead, set `STOREKEEPER_KAFKA_BOOTSTRAP` for apps and nodes. This one is the default, which
needs no installation.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from storekeeper.errors import ConfigurationError
from storekeeper.ops.errors import NotSetUpError, StartError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.machine import LEAST_MB, check_not_full
from storekeeper.ops.paced_exec import ROOM
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import MAX_MESSAGE_BYTES

_FORMAT_TIMEOUT_S = 120
_HEAP = "-Xmx512m"

_COMMON: Mapping[str, str | int] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    # A broker that was killed is fenced until its old session ends: 9 s by default, 6 s here.
    "broker.session.timeout.ms": 6000,
    "broker.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": 33554432,
    "offsets.topic.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


def server_properties(data: Path, port: int, controller_port: int, more: Mapping[str, str | int]) -> str:
    """The text of `server.properties` for a broker on loopback that is its own controller. Its data is in `data`.

    Raises:
        ConfigurationError: Kafka can't have its data there.
    """
    if "," in str(data):
        raise ConfigurationError(f"Kafka would take {data} for several folders: use a run_dir without commas")
    own = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": data,
    }
    return "".join(f"{name}={_escaped(str(value))}\n" for name, value in {**_COMMON, **own, **more}.items())


def _escaped(value: str) -> str:
    """A value of a file that Java reads: as Latin-1, and with backslashes for what is not in that."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(pair) for pair in zip(units[::2], units[1::2], strict=True)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def broker_command(java: Sequence[str], properties: Path) -> list[str]:
    """The argv of a broker, behind a command and options from `broker_java`. Its log goes to standard error."""
    return [
        *java,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "kafka.Kafka",
        str(properties),
    ]


def format_command(java: Sequence[str], properties: Path) -> list[str]:
    """The argv that formats a broker's storage, unless it is formatted. The arguments are those of `broker_command`."""
    tool = ("kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _new_cluster_id(), "-c", str(properties))
    return [*java, *tool]


def broker_java(java: str, jars: Path, *options: str) -> list[str]:
    """The Java command with the broker's classes, which are in the folder `jars`."""
    return [java, "-XX:+UseSerialGC", *options, "-cp", f"{jars}/*"]


def platform_broker(layout: RunLayout, settings: PlatformSettings) -> list[str]:
    """The words behind `paced_exec` and its file for the platform's broker. The supervisor rotates its log.

    They don't depend on the caller: the java is that of the supervisor's path.
    """
    return [ROOM, str(layout.kafka), str(LEAST_MB), *broker_command(_java(settings, _HEAP), _properties(layout))]


def prepare_broker(layout: RunLayout, settings: PlatformSettings, environment: Mapping[str, str]) -> None:
    """Writes the broker's configuration and formats its storage unless it is formatted. Safe to repeat.

    Raises:
        ConfigurationError: Kafka can't have its data there.
        NotSetUpError: the jars are missing.
        StartError: the storage could not be formatted.
    """
    if not any((settings.jars_dir / "broker").glob("kafka_*.jar")):
        raise NotSetUpError(f"The broker's jars are missing under {settings.jars_dir}: run `storekeeper jars`.")
    more = {
        "num.partitions": settings.topic_partitions,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
    }
    text = server_properties(layout.kafka / "data", settings.kafka_port, settings.kafka_controller_port, more)
    _properties(layout).write_text(text, "utf-8")
    if (layout.kafka / "data" / "meta.properties").exists():
        return
    command = format_command(_java(settings, "-Xmx128m"), _properties(layout))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, env=dict(environment), check=False
    )
    if done.returncode != 0:
        # Java reports a full disk only as prose: check the disk before blaming the broker.
        check_not_full(layout.kafka)
        cause = (done.stderr.strip().splitlines() or ["no output"])[-1]
        msg = f"Kafka's storage under {layout.kafka} could not be formatted ({cause}): remove it and try again."
        raise StartError(msg)


def _java(settings: PlatformSettings, *options: str) -> list[str]:
    return broker_java("java", settings.jars_dir / "broker", *options)


def _properties(layout: RunLayout) -> Path:
    return layout.kafka / "server.properties"


def _new_cluster_id() -> str:
    """As Kafka makes them: none begins with a dash, which its tools would take for an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not made.startswith("-"):
            return made
