"""Settings of a serving node, from environment variables `STOREKEEPER_<NAME>`. Checked whole before anything starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from state.errors import ConfigurationError, InvalidNameError
from state.names import checked_name
from state.query.definitions import StoreDefinition, parse_definitions

EXIT_CONFIGURATION = 78
"""Exit code of a process whose settings can't work: restarting it would not help."""


def parse_pairs(text: str) -> dict[str, str]:
    """Reads `a=1,b=2`. Raises ValueError if a part has no `=` or a name comes twice."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or not value.strip():
            msg = f"{part!r} is not of the form name=value"
            raise ValueError(msg)
        if name.strip() in pairs:
            msg = f"{name.strip()!r} is there twice"
            raise ValueError(msg)
        pairs[_name(name.strip())] = value.strip()
    return pairs


def _name(text: str) -> str:
    try:
        return checked_name(text)
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def _stores(text: str) -> str:
    parse_definitions(text)
    return text


def _peers(text: str) -> str:
    for name, address in parse_pairs(text).items():
        parts = urlsplit(address)
        if parts.scheme != "http" or parts.hostname is None or parts.port is None or parts.username is not None:
            msg = f"the address of peer {name!r} must be http://host:port, not {address!r}"
            raise ValueError(msg)
        if parts.path not in {"", "/"} or parts.query or parts.fragment:
            msg = f"the address of peer {name!r} must end after the port: {address!r}"
            raise ValueError(msg)
    return text


def _loopback(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        msg = f"{host!r} is no IP address: use 127.0.0.1"
        raise ValueError(msg) from error
    if not address.is_loopback:
        msg = f"a node listens on loopback only, as it has no authentication yet: use 127.0.0.1 instead of {host}"
        raise ValueError(msg)
    return host


class NodeSettings(BaseSettings):
    """One serving node. Every field is the variable `STOREKEEPER_<FIELD>`."""

    model_config = SettingsConfigDict(env_prefix="STOREKEEPER_", extra="ignore")

    run_dir: Path = Field(Path(".run"), description="Folder for everything that is written.")
    cluster_secret_file: Path | None = Field(
        None,
        description="File with the secret that the cluster's nodes share, mode 0600; made if absent. "
        "None is `secrets/cluster.key` in `run_dir`.",
    )
    kafka_bootstrap: str = Field("127.0.0.1:19092", description="Kafka brokers, host:port,…")
    listen_host: Annotated[str, AfterValidator(_loopback)] = Field("127.0.0.1", description="Address to listen on.")
    listen_port: int = Field(0, ge=0, le=65535, description="Port to listen on; 0 takes the one in `peers`.")
    peers: Annotated[str, AfterValidator(_peers)] = Field(
        "a=http://127.0.0.1:18101,b=http://127.0.0.1:18102",
        description="Every node of the cluster, this one included: name=http://host:port,…",
    )
    stores: Annotated[str, AfterValidator(_stores)] = Field(
        "rewards=loyalty-rewards-changelog",
        description="Stores to serve: store=changelog-topic[:kind[:score_field]],… with kind keyvalue, ranked, window, "
        "session or global; a ranked store names the field of its values that holds the score.",
    )
    replicas: int = Field(
        1, ge=0, le=16, description="Standby replicas of each store partition, beside the active one."
    )
    backend: str = Field("rocksdb", pattern="^(rocksdb|memory)$", description="Where rows live: rocksdb or memory.")
    memory_mib: int = Field(256, ge=16, le=1 << 20, description="Bound of RocksDB's caches and write buffers together.")
    cold_restore_records: int = Field(
        200_000, ge=1, description="A replica with at least so many records to go is restored in a process of its own."
    )
    cold_restore_workers: int = Field(2, ge=1, le=64, description="At most so many such processes.")
    max_key_bytes: int = Field(65_536, ge=1, description="Longest key that a query may name.")
    max_body_bytes: int = Field(1 << 20, ge=0, description="Longest request body that is read.")
    max_page_rows: int = Field(1000, ge=1, description="Most rows of one page.")
    max_page_bytes: int = Field(4 << 20, ge=1024, description="Most bytes of values in one page.")
    max_scans: int = Field(32, ge=1, description="Scans answered at the same time; more are refused with 429.")
    forward_timeout_ms: int = Field(2000, ge=1, le=30_000, description="Deadline of a request to another node.")
    start_timeout_ms: int = Field(
        30_000, ge=0, description="How long to wait at the start for the broker and the changelog topics."
    )

    @model_validator(mode="after")
    def _absolute(self) -> Self:
        self.run_dir = self.run_dir.absolute()
        return self

    @property
    def definitions(self) -> Mapping[str, StoreDefinition]:
        """The stores by name."""
        return parse_definitions(self.stores)

    @property
    def cluster_secret_path(self) -> Path:
        """Where the cluster's secret is."""
        return self.cluster_secret_file or self.run_dir / "secrets" / "cluster.key"

    @property
    def peer_addresses(self) -> Mapping[str, str]:
        """Address by node name, without a slash at the end."""
        return {name: address.rstrip("/") for name, address in parse_pairs(self.peers).items()}

    def port_of(self, name: str) -> int:
        """The port that node `name` listens on.

        Raises:
            ConfigurationError: if it is not among the peers.
        """
        addresses = self.peer_addresses
        if name not in addresses:
            msg = f"node {name!r} is not among STOREKEEPER_PEERS ({', '.join(addresses)}): add it there"
            raise ConfigurationError(msg)
        return self.listen_port or urlsplit(addresses[name]).port or 0


def load_node_settings() -> NodeSettings:
    """Reads the environment.

    Raises:
        ConfigurationError: with one sentence for each setting that can't work.
    """
    try:
        return NodeSettings()  # type: ignore[call-arg]
    except ValidationError as error:
        sentences = [
            f"STOREKEEPER_{str(problem['loc'][0]).upper() if problem['loc'] else ''}: "
            f"{problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors()
        ]
        raise ConfigurationError("; ".join(sentences)) from error
