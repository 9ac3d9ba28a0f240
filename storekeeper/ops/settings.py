"""The settings of the platform as a whole: where it lives, on which ports, how big."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator
from pydantic_settings import NoDecode

from storekeeper.apps.settings import default_jars_dir
from storekeeper.configuration import APPLY, LIVE, NEXT_START, parse_pairs
from storekeeper.kafka.settings import KafkaSettings, own_broker
from storekeeper.loopback import is_loopback
from storekeeper.names import checked_name
from storekeeper.node.settings import ip_address
from storekeeper.run_dir import own_run_dir

_Port = Annotated[int, Field(ge=1, le=65535)]
_EMBEDDED, _NONE = "embedded", "none"
_AT_START = f"{NEXT_START}: `storekeeper down`, then `up`"


def _airflow(text: str) -> str:
    parts = urlsplit(text)
    if text not in {_EMBEDDED, _NONE} and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ValueError(f"it must be {_EMBEDDED}, {_NONE} or http(s)://host:port, not {text!r}")
    return text.rstrip("/")


class PlatformSettings(KafkaSettings):
    """The settings of `storekeeper up`, `down` and `status`."""

    change = APPLY

    jars_dir: Path = Field(
        default=default_jars_dir(),
        description="Folder of the Spark and broker jars, put there by `make setup` or `storekeeper jars`.",
        json_schema_extra={"change": "restart of the apps and the broker"},
    )

    airflow: Annotated[str, AfterValidator(_airflow)] = Field(
        _NONE,
        description="`embedded`: `storekeeper up` runs one. `none`. Or the address of yours, to be shown. Nothing but "
        "scheduled maintenance needs it.",
    )
    airflow_port: _Port = Field(
        18080,
        description="Port of the embedded Airflow's UI and API.",
        json_schema_extra={"change": "restart of Airflow"},
    )
    supervisor_port: _Port = Field(
        19001, description="Port of supervisor's XML-RPC.", json_schema_extra={"change": _AT_START}
    )
    node_names: Annotated[tuple[str, ...], NoDecode] = Field(
        ("a", "b"), description="Names of the query nodes that run here, comma-separated; empty: none."
    )
    node_port: _Port = Field(
        18101,
        description="Port of the first query node; the next ones follow upwards. `peers` may name other addresses.",
    )
    peers: str = Field("", description="Addresses of nodes: see *Query nodes*. By default those that run here.")
    control_host: Annotated[str, AfterValidator(ip_address)] = Field(
        "127.0.0.1",
        description="IP address of the control API. Beyond loopback it needs certificate and tokens of the nodes.",
        json_schema_extra={"change": "restart of the control API and Airflow"},
    )
    control_port: _Port = Field(
        18091,
        description="Port of the control API, and of the metrics of apps, snapshots and the quality gate.",
        json_schema_extra={"change": "restart of the control API and Airflow"},
    )

    history_minutes: int = Field(
        60,
        ge=1,
        le=60,
        description="How often the DAG `snapshot_stores` appends to histories, from the full hour on. It writes tables "
        "once an hour.",
        json_schema_extra={"change": f"{LIVE}: `storekeeper apply`, or `export-dags` for your own Airflow"},
    )
    topic_partitions: int = Field(
        4,
        ge=1,
        le=1024,
        description="Partitions of each new topic.",
        json_schema_extra={
            "unit": "partitions",
            "change": f"{LIVE} for new topics; others keep their number",
        },
    )

    start_timeout_s: int = Field(
        240,
        ge=10,
        description="How long the platform may take to become healthy; an app has three quarters of it.",
        json_schema_extra={"change": LIVE},
    )

    @field_validator("jars_dir")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @field_validator("node_names", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("node_names")
    @classmethod
    def _distinct_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError(f"node names must differ: {', '.join(names)}")
        return tuple(checked_name(name) for name in names)

    @property
    def starts_broker(self) -> bool:
        """Whether the platform's Kafka is a broker of its own."""
        return self.kafka_bootstrap == own_broker(self.kafka_port)

    @property
    def kafka_controller_port(self) -> int:
        """Port of the KRaft controller of the platform's own broker."""
        return self.kafka_port + 1

    @property
    def embeds_airflow(self) -> bool:
        """Whether Airflow's processes are among those of the platform."""
        return self.airflow == _EMBEDDED

    @property
    def airflow_url(self) -> str:
        """Base address of Airflow, without a trailing slash; empty if there is none."""
        if self.embeds_airflow:
            return f"http://127.0.0.1:{self.airflow_port}"
        return "" if self.airflow == _NONE else self.airflow

    @property
    def control_url(self) -> str:
        """Base address of the control API, without a trailing slash."""
        scheme = "http" if is_loopback(self.control_host) else "https"
        host = f"[{self.control_host}]" if ":" in self.control_host else self.control_host
        return f"{scheme}://{host}:{self.control_port}"

    @property
    def node_ports(self) -> dict[str, int]:
        """Each query node's port, in the order of `node_names`."""
        return {name: self.node_port + index for index, name in enumerate(self.node_names)}

    @property
    def node_urls(self) -> dict[str, str]:
        """Each query node's base address, without a trailing slash: that of `peers`, if it has one."""
        named = parse_pairs(self.peers)
        return {name: named.get(name, f"http://127.0.0.1:{port}").rstrip("/") for name, port in self.node_ports.items()}

    @property
    def ports(self) -> dict[str, int]:
        """Every port that the platform listens on, by the setting that moves it."""
        broker = {
            "`kafka_port`": self.kafka_port,
            "`kafka_port` (+1)": self.kafka_controller_port,
        }
        airflow = {"`airflow_port`": self.airflow_port} if self.embeds_airflow else {}
        named = {
            "`supervisor_port`": self.supervisor_port,
            "`control_port`": self.control_port,
        }
        nodes = {f"`node_port` (+{i})": port for i, port in enumerate(self.node_ports.values())}
        return (broker if self.starts_broker else {}) | airflow | named | nodes


class OwnPlatformSettings(PlatformSettings):
    """The same for commands that may make a new platform: by default in the current folder."""

    run_dir: Path = Field(default_factory=own_run_dir)
