"""Settings of a serving node. Checked whole before anything starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic.config import JsonDict

from storekeeper.configuration import APPLY, Settings, counted, explained, parse_pairs, valid_name
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.settings import KafkaSettings
from storekeeper.node.peer_address import PeerRules
from storekeeper.stores.store_definitions import StoreDefinition, parse_definitions


def _stores(text: str) -> str:
    parse_definitions(text)
    return text


def _peers(text: str) -> str:
    for name, address in parse_pairs(text).items():
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.port or parts.username is not None:
            msg = f"the address of peer {name!r} must be http://host:port or https://host:port, not {address!r}"
            raise ValueError(msg)
        if parts.path not in {"", "/"} or parts.query or parts.fragment:
            raise ValueError(f"the address of peer {name!r} must end after the port: {address!r}")
    return text


def _address(text: str) -> str:
    if text:
        _peers(f"this={text}")
    return text.rstrip("/")


def _rack(text: str) -> str:
    return valid_name(text) if text else ""


def _store_replicas(text: str) -> str:
    for store, number in parse_pairs(text).items():
        if not number.isdecimal() or int(number) > 16:
            raise ValueError(f"the replicas of store {store!r} must be a number from 0 to 16, not {number!r}")
    return text


def ip_address(host: str) -> str:
    """Returns a setting that is an IP address. Raises ValueError if it isn't."""
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise ValueError(f"{host!r} is not an IP address: use 127.0.0.1") from error
    return host


def _peer_networks(text: str) -> str:
    try:
        PeerRules.parse(text)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    return text


_NODE_PORT = 18101
_ALSO_CONTROL: JsonDict = {"change": "restart of the nodes and the control API"}


class _NodesOfPlatform(Settings):
    """The settings of the platform that decide where its own nodes are."""

    change = APPLY

    node_names: str = ""
    node_port: int = 0

    @property
    def peers(self) -> str:
        """Its nodes, as the setting `peers` has them; empty if neither setting is used."""
        if not self.node_names and not self.node_port:
            return ""
        names, port = (self.node_names or "a,b").split(","), self.node_port or _NODE_PORT
        return ",".join(f"{name.strip()}=http://127.0.0.1:{port + index}" for index, name in enumerate(names))


class NodeSettings(KafkaSettings):
    """One serving node. Every field is the variable `STOREKEEPER_<FIELD>`."""

    change = "restart of the nodes"

    @model_validator(mode="before")
    @classmethod
    def _nodes_of_the_platform(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Without `peers`, those of the platform that the configuration describes, whether it runs or not."""
        place = {name: values[name] for name in ("run_dir",) if name in values}
        peers = "" if "peers" in values else _NodesOfPlatform(**place).peers
        return {"peers": peers, **values} if peers else values

    cluster_secret_file: Path | None = Field(
        None,
        description="File with the secret that the cluster's nodes share, mode 0600; made if absent. "
        "Default: `secrets/cluster.key` in `run_dir`.",
    )
    tokens_file: Path | None = Field(
        None,
        description="File of `storekeeper token add`; if set, every request but `/livez` needs a token of it.",
        json_schema_extra=_ALSO_CONTROL,
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file with the node's certificate and its chain.", json_schema_extra=_ALSO_CONTROL
    )
    tls_key: Path | None = Field(
        None, description="PEM file with the certificate's key, mode 0600.", json_schema_extra=_ALSO_CONTROL
    )
    tls_client_ca: Path | None = Field(
        None,
        description="PEM file; if set, clients must show a certificate that this CA has signed.",
        json_schema_extra=_ALSO_CONTROL,
    )
    tls_peer_ca: Path | None = Field(
        None, description="PEM file with the CA of the other nodes' certificates. Default: the system's CAs."
    )
    peer_networks: Annotated[str, AfterValidator(_peer_networks)] = Field(
        "127.0.0.0/8,::1/128",
        description="Networks of the other nodes, and names of hosts in them. A node connects nowhere else.",
    )
    allowed_hosts: str = Field(
        "", description="Names, beside localhost, by which clients may call a node on loopback: name,…"
    )
    listen_host: Annotated[str, AfterValidator(ip_address)] = Field(
        "127.0.0.1", description="IP address to listen on. Beyond loopback it needs TLS and authentication."
    )
    listen_port: int = Field(0, ge=0, le=65535, description="Port to listen on; 0 takes the one in `peers`.")
    peers: Annotated[str, AfterValidator(_peers)] = Field(
        f"a=http://127.0.0.1:{_NODE_PORT},b=http://127.0.0.1:{_NODE_PORT + 1}",
        description="Known nodes: name=http://host:port,… Others join by heartbeats.",
        json_schema_extra={"change": APPLY},
    )
    stores: Annotated[str, AfterValidator(_stores)] = Field(
        "",
        description="Stores to serve: store=changelog-topic[:kind[:score_field][:schemas]],… with kind keyvalue, "
        "ranked, window, session, versioned or global; a ranked store names the field of its values that holds the "
        "score. `schemas` means that values have schemas of a registry.",
    )
    replicas: int = counted(
        1, "replicas", "Standby replicas of each store partition, beside the active one.", least=0, most=16
    )
    store_replicas: Annotated[str, AfterValidator(_store_replicas)] = Field(
        "", description="Another number of standby replicas for some stores: store=number,…"
    )
    rack: Annotated[str, AfterValidator(_rack)] = Field(
        "",
        description="Rack of this node. Replicas are spread over racks. Empty: a rack of its own.",
    )
    advertised_address: Annotated[str, AfterValidator(_address)] = Field(
        "",
        description="Where other nodes reach this one, http://host:port; empty is its address in `peers`, or "
        "`listen_host` and `listen_port`.",
    )
    acceptable_staleness_ms: int = Field(
        2000, ge=500, description="A staler replica answers only if no fresher one does."
    )
    join_delay_ms: int = Field(
        10_000,
        ge=0,
        description="A node that joins takes partitions after this time, or at once if too few nodes hold them. "
        "One that leaves before moves none.",
    )
    backend: str = Field("rocksdb", pattern="^(rocksdb|memory)$", description="Where rows live: rocksdb or memory.")
    memory_mib: int = Field(256, ge=16, le=1 << 20, description="Bound of RocksDB's caches and write buffers together.")
    row_cache_mib: int = Field(
        64, ge=0, le=1 << 16, description="Bound of the cached answers of each store; 0 caches none."
    )
    max_requests: int = counted(1024, "requests", "Requests answered at the same time; more are refused with 429.")
    max_connections: int = counted(
        1024,
        "connections",
        "Open connections; for one more, one that has been idle for long is closed.",
        least=16,
        most=1 << 20,
    )
    max_client_connections: int = counted(512, "connections", "Open connections from one IP address.", most=1 << 20)
    max_examined_rows: int = counted(
        20_000, "rows", "Most rows that one page of a search by time looks at, on each node.", least=1000
    )
    max_scans: int = counted(32, "scans", "Scans answered at the same time; more are refused with 429.")
    max_streams: int = counted(
        16, "streams", "Scans streamed at the same time; more are refused with 429.", most=10_000
    )
    ranked_memory_mib: int = Field(
        512,
        ge=1,
        le=1 << 20,
        description="Memory for the rankings of ranked stores: about 400 bytes a row and the row itself.",
    )

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

    @property
    def replicas_by_store(self) -> Mapping[str, int]:
        """Standby replicas of the stores that have a number of their own."""
        return {store: int(number) for store, number in parse_pairs(self.store_replicas).items()}

    def port_of(self, name: str) -> int:
        """The port that node `name` listens on.

        Raises:
            ConfigurationError: if neither `listen_port` nor `peers` names one.
        """
        addresses = self.peer_addresses
        if not self.listen_port and name not in addresses:
            msg = f"node {name!r} is not among `peers` ({', '.join(addresses)}): add it there, or set `listen_port`"
            raise ConfigurationError(msg)
        return self.listen_port or urlsplit(addresses[name]).port or 0

    def address_of(self, name: str) -> str:
        """The base address that node `name` announces. Raises as `port_of` does."""
        port = self.port_of(name)
        if self.advertised_address:
            return self.advertised_address
        if name in self.peer_addresses and not self.listen_port:
            return self.peer_addresses[name]
        host = f"[{self.listen_host}]" if ":" in self.listen_host else self.listen_host
        return f"{'https' if self.tls_certificate else 'http'}://{host}:{port}"


def load_node_settings(overrides: Mapping[str, object] | None = None) -> NodeSettings:
    """Reads the environment; `overrides` take precedence.

    Raises:
        ConfigurationError: with one sentence for each setting that can't work.
    """
    try:
        return NodeSettings(**(overrides or {}))  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigurationError(explained(error)) from error
