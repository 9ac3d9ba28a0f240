"""The settings of all that reaches Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from storekeeper.configuration import IMPOSSIBLE, LIVE, NEXT_START, RunDirSettings, valid_name
from storekeeper.kafka.connection import CLUSTER, TIMES, Kafka, Pairs

OWN_PORT = 19092
_OURS = frozenset({"cleanup.policy", "max.message.bytes", TIMES})


def _topic_config(text: str) -> str:
    _pairs(text)
    return text


def _pairs(text: str) -> Pairs:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not name or not value or name in pairs:
            raise ValueError(f"{part!r} is not of the form name=value, or is given twice")
        if name in _OURS:
            raise ValueError(f"{name} can't be set: Storekeeper sets it for each topic")
        if name == "replication.factor" and not (value.isdecimal() and int(value) > 0):
            raise ValueError(f"replication.factor must be a number from 1, not {value!r}")
        pairs[name] = value
    return tuple(pairs.items())


class KafkaSettings(RunDirSettings):
    """Where Kafka is, how clients reach it, and how topics are made there."""

    change = "restart of all processes"

    kafka_bootstrap: str = Field(
        default=f"127.0.0.1:{OWN_PORT}",
        min_length=1,
        description="Kafka brokers, host:port,… `storekeeper up` starts a broker of its own unless this names others.",
    )
    kafka_port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=OWN_PORT,
        description="Port of the platform's own Kafka broker. Its KRaft controller has the next one.",
        json_schema_extra={"change": f"{NEXT_START}: `storekeeper down`, then `up`"},
    )
    kafka_properties: Path | None = Field(
        default=None,
        description="File with properties of every client by librdkafka's names, for TLS and SASL, mode 0600. See "
        "[Use your own Kafka](../how-to/use-your-kafka.md).",
    )
    topic_config: Annotated[str, AfterValidator(_topic_config)] = Field(
        default="",
        description="Configuration of new topics by Kafka's names, and `replication.factor`: name=value,… Without "
        "it, records are kept for a week unless the topic is compacted, and the broker's defaults apply.",
        json_schema_extra={"change": f"{LIVE} for new topics: change others with Kafka's own tools"},
    )
    make_topics: bool = Field(
        default=True,
        description="Whether missing topics are made. If not, an administrator makes those of "
        "`storekeeper create-topics --dry-run`.",
    )

    cluster: Annotated[str, AfterValidator(valid_name)] = Field(
        default=CLUSTER,
        description="Name of the cluster of nodes. The topics of its heartbeats and aliases begin with it, and all "
        "groups.",
        json_schema_extra={"change": f"{IMPOSSIBLE} after a migration: the aliases are in a topic of this name"},
    )

    @model_validator(mode="before")
    @classmethod
    def _own_broker_by_default(cls, values: dict[str, Any]) -> dict[str, Any]:
        # A command that is given the platform's file must not ask another platform's broker at the default port.
        return {"kafka_bootstrap": own_broker(values["kafka_port"]), **values} if "kafka_port" in values else values

    @property
    def kafka(self) -> Kafka:
        """The Kafka of these settings."""
        config = _pairs(self.topic_config)
        return Kafka(self.kafka_bootstrap, self.kafka_properties, config, self.make_topics, self.cluster)


def own_broker(port: object) -> str:
    """The address of the platform's own broker."""
    return f"127.0.0.1:{port}"
