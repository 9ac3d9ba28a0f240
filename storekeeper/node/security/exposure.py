"""What a node needs before it listens: nothing on loopback, TLS and authentication anywhere else."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError
from storekeeper.loopback import is_loopback
from storekeeper.node.peer_address import PeerRules, PinnedTransport
from storekeeper.node.security.access import Authenticator, HostRule, TokenBook
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import HopSigner, HopVerifier
from storekeeper.node.settings import NodeSettings
from storekeeper.private_files import check_regular, check_secret


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a node that speaks TLS. `client_ca` signs the certificates that its clients must show."""

    certificate: Path
    key: Path
    client_ca: Path | None
    peer_ca: Path | None

    def server_context(self) -> ssl.SSLContext:
        """How this node is called: by TLS 1.3, with a client's certificate where a CA for them is named."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.client_ca)
        return context

    def client_context(self) -> ssl.SSLContext:
        """How this node calls others: it checks their certificates and shows its own."""
        context = ssl.create_default_context(cafile=None if self.peer_ca is None else str(self.peer_ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self.certificate, self.key)
        return context


def checked_exposure(settings: NodeSettings) -> Tls | None:
    """The files for TLS, None for plain HTTP on loopback.

    Raises:
        ConfigurationError: if the node would listen beyond loopback without TLS or without authentication, if other
            nodes would be called in clear text, or if a file can't be used.
    """
    tls = _tls(settings)
    if not is_loopback(settings.listen_host):
        if tls is None:
            raise ConfigurationError(
                f"listening on {settings.listen_host}, beyond loopback, needs TLS: set `tls_certificate` and "
                "`tls_key`, or listen on 127.0.0.1"
            )
        if settings.tokens_file is None and tls.client_ca is None:
            raise ConfigurationError(
                f"listening on {settings.listen_host}, beyond loopback, needs authentication: set "
                "`tokens_file` or `tls_client_ca`"
            )
    for name, address in settings.peer_addresses.items():
        parts = urlsplit(address)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            msg = f"the address of peer {name!r} is beyond loopback, so it must be https://, not {address}"
            raise ConfigurationError(msg)
    return tls


def protection(settings: NodeSettings, clock: Clock) -> tuple[Tls | None, Authenticator]:
    """What `checked_exposure` returns, and what knows callers by tokens and certificates.

    Raises:
        ConfigurationError: as `checked_exposure`; or the tokens can't be read.
    """
    tls = checked_exposure(settings)
    tokens = None if settings.tokens_file is None else TokenBook(settings.tokens_file, clock)
    return tls, Authenticator(tokens, certificates=tls is not None and tls.client_ca is not None)


def _tls(settings: NodeSettings) -> Tls | None:
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        if settings.tls_client_ca is not None:
            raise ConfigurationError("`tls_client_ca` needs `tls_certificate` and `tls_key` as well")
        return None
    if certificate is None or key is None:
        raise ConfigurationError("`tls_certificate` and `tls_key` are needed together")
    tls = Tls(certificate, key, settings.tls_client_ca, settings.tls_peer_ca)
    try:
        check_secret(key, "the TLS key")
        for path in filter(None, (certificate, settings.tls_client_ca, settings.tls_peer_ca)):
            check_regular(path, "the certificate")
        tls.client_context()
        tls.server_context()
    except (OSError, ssl.SSLError) as error:
        msg = f"the TLS certificate, its key or a CA can't be used ({error}): name PEM files that belong together"
        raise ConfigurationError(msg) from error
    return tls


_POOL = httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=30)
"""Idle connections are given up before the other node's idle time-out ends them."""


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """Secrets, rules and files of a node. `hosts` is None beyond loopback, where certificates identify the node."""

    secret: bytes
    tls: Tls | None
    authenticator: Authenticator
    sign: HopSigner
    hops: HopVerifier
    hosts: HostRule | None
    peers: PeerRules
    clock: Clock

    @classmethod
    def of(cls, node: str, settings: NodeSettings, clock: Clock) -> NodeSecurity:
        """Reads secrets, tokens and certificates.

        Raises:
            ConfigurationError: if the node must not listen with these settings.
        """
        tls, authenticator = protection(settings, clock)
        secret = load_cluster_secret(settings.cluster_secret_path)
        return cls(
            secret=secret,
            tls=tls,
            authenticator=authenticator,
            sign=HopSigner(node, secret, clock),
            hops=HopVerifier(node, secret, clock),
            hosts=HostRule(settings.allowed_hosts.split(",")) if is_loopback(settings.listen_host) else None,
            peers=PeerRules.parse(settings.peer_networks),
            clock=clock,
        )

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A new pool of connections to one other node."""
        if self.tls is None:
            inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=_POOL)
        else:
            inner = httpx2.AsyncHTTPTransport(verify=self.tls.client_context(), trust_env=False, limits=_POOL)
        return PinnedTransport(inner, self.peers, self.clock)
