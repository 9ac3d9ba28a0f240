"""Secrets and certificates of the compose file."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import read_tokens, token_digest
from storekeeper.ops.containers.authority import authority_pems, issue, new_authority
from storekeeper.ops.containers.prepare import SERVERS, STREAM_APPS, prepare_containers


def test_what_is_prepared_is_for_its_owner_only_and_stays(tmp_path: Path) -> None:
    made = prepare_containers(tmp_path)
    assert len(made) == len(set(made))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert set(made) == set(before)
    assert {path.stat().st_mode & 0o777 for path in before} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    assert prepare_containers(tmp_path) == []
    assert {path: path.read_bytes() for path in before} == before


def test_a_host_that_joins_later_is_signed_by_the_authority_that_is_there(tmp_path: Path) -> None:
    prepare_containers(tmp_path)
    secrets = tmp_path / "secrets"
    (secrets / f"{STREAM_APPS}.key").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made = {secrets / f"{STREAM_APPS}.pem", secrets / f"{STREAM_APPS}.key"}
    assert set(prepare_containers(tmp_path)) == made
    assert {path for path, content in before.items() if path.read_bytes() != content} <= made
    assert _handshake(secrets / "ca.pem", secrets / f"{STREAM_APPS}.pem", secrets / f"{STREAM_APPS}.key", STREAM_APPS)


@pytest.mark.parametrize("lost", ["ca.key", "ca.pem"])
def test_nothing_is_signed_anew_because_the_authority_is_lost(tmp_path: Path, lost: str) -> None:
    prepare_containers(tmp_path)
    secrets = tmp_path / "secrets"
    (secrets / lost).unlink()
    assert prepare_containers(tmp_path) == []
    (secrets / f"{STREAM_APPS}.pem").unlink()
    before = {path: path.read_bytes() for path in secrets.iterdir()}
    with pytest.raises(ConfigurationError, match="put both back, or remove all"):
        prepare_containers(tmp_path)
    assert {path: path.read_bytes() for path in secrets.iterdir()} == before


def test_two_projects_share_no_secret(tmp_path: Path) -> None:
    prepare_containers(tmp_path / "one")
    prepare_containers(tmp_path / "two")
    for path in (tmp_path / "one" / "secrets").iterdir():
        assert path.read_bytes() != (tmp_path / "two" / "secrets" / path.name).read_bytes(), path.name


def test_the_tokens_are_those_that_nodes_take(tmp_path: Path) -> None:
    prepare_containers(tmp_path)
    known = {record.caller.name: record.digest for record in read_tokens(tmp_path / "secrets/tokens")}
    for name in ("reader", "prometheus", "airflow"):
        assert known[name] == token_digest((tmp_path / f"secrets/{name}-token").read_bytes())


@pytest.mark.parametrize("node", SERVERS)
def test_a_node_proves_its_name_to_whoever_trusts_the_authority(tmp_path: Path, node: str) -> None:
    prepare_containers(tmp_path)
    secrets = tmp_path / "secrets"
    assert _handshake(secrets / "ca.pem", secrets / f"{node}.pem", secrets / f"{node}.key", node)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(secrets / "ca.pem", secrets / f"{node}.pem", secrets / f"{node}.key", "node-z")


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    now = dt.datetime.now(dt.UTC)
    one, other = new_authority("one", now), new_authority("other", now)
    certificate, key = issue(one, "node", ["127.0.0.1"], now)
    for name, content in (("node.pem", certificate), ("node.key", key), ("ca.pem", authority_pems(other)[0])):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(tmp_path / "ca.pem", tmp_path / "node.pem", tmp_path / "node.key", "127.0.0.1")


def _handshake(ca: Path, certificate: Path, key: Path, host: str) -> bool:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    asking = ssl.create_default_context(cafile=ca)
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(there, server_side=True).close()
        except (ssl.SSLError, OSError):
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(here, server_hostname=host) as connection:
            return connection.version() == "TLSv1.3"
    finally:
        here.close()
        thread.join(10)
