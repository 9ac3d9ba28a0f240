"""Secrets and certificates of the compose file."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from storekeeper.node.security.access import read_tokens, token_digest
from tests.ops.containers.prepared import SERVERS, STREAM_APPS, prepare, prepared


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that tests don't change."""
    return prepared(tmp_path_factory.mktemp("prepared") / ".containers")


def test_what_is_prepared_is_for_its_owner_only_and_stays(folder: Path) -> None:
    before = contents(folder)
    assert {path.stat().st_mode & 0o777 for path in before} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}
    done = prepare(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert contents(folder) == before


def test_secrets_have_the_form_that_their_readers_want(folder: Path) -> None:
    secrets = folder / "secrets"
    assert len(base64.urlsafe_b64decode((secrets / "airflow-fernet-key").read_bytes())) == 32
    assert len((secrets / "cluster.key").read_bytes()) == 32
    password = (secrets / "postgres-password").read_text()
    assert (secrets / "airflow-database").read_text() == f"postgresql+psycopg2://airflow:{password}@postgres/airflow"
    assert len(json.loads((folder / "run/secrets/airflow-passwords.json").read_text())["admin"]) == 24


@pytest.mark.parametrize("lost", ["tokens", "airflow-token", f"{STREAM_APPS}.pem", f"{STREAM_APPS}.key"])
def test_what_is_lost_is_made_again(tmp_path: Path, lost: str) -> None:
    secrets = prepared(tmp_path / "one") / "secrets"
    (secrets / lost).unlink()
    if lost == "tokens":
        for path in secrets.glob("*-token"):
            path.unlink()
    assert prepare(tmp_path / "one").returncode == 0
    assert token_is_known(secrets, "airflow")
    assert handshake(secrets, STREAM_APPS, STREAM_APPS)


@pytest.mark.parametrize(("lost", "says"), [("ca.pem", "ca.pem is lost: put it back"), ("ca.key", "no certificate")])
def test_nothing_is_signed_by_another_authority_because_the_first_is_lost(tmp_path: Path, lost: str, says: str) -> None:
    secrets = prepared(tmp_path / "one") / "secrets"
    for name in (lost, f"{STREAM_APPS}.pem"):
        (secrets / name).unlink()
    before = contents(secrets)
    done = prepare(tmp_path / "one")
    assert done.returncode != 0
    assert says in done.stderr
    after = contents(secrets)
    assert {path: after[path] for path in before} == before
    assert not (secrets / f"{STREAM_APPS}.pem").exists()


def test_two_projects_share_no_secret(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "two"
    assert prepare(other).returncode == 0
    for path in (folder / "secrets").iterdir():
        assert path.read_bytes() != (other / "secrets" / path.name).read_bytes(), path.name


def test_the_tokens_are_those_that_nodes_take(folder: Path) -> None:
    for name in ("reader", "prometheus", "airflow"):
        assert token_is_known(folder / "secrets", name)


@pytest.mark.parametrize("host", SERVERS)
def test_a_host_proves_its_name_to_whoever_trusts_the_authority(folder: Path, host: str) -> None:
    assert handshake(folder / "secrets", host, host)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(folder / "secrets", host, "node-z")


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    done = prepare(tmp_path / "link")
    assert (done.returncode, "is a link" in done.stderr) == (78, True)
    assert not list((tmp_path / "target").iterdir())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def token_is_known(secrets: Path, name: str) -> bool:
    known = {record.caller.name: record.digest for record in read_tokens(secrets / "tokens")}
    return known[name] == token_digest((secrets / f"{name}-token").read_bytes())


def handshake(secrets: Path, server: str, called: str) -> bool:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(secrets / f"{server}.pem", secrets / f"{server}.key")
    asking = ssl.create_default_context(cafile=secrets / "ca.pem")
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(there, server_side=True).close()
        except (ssl.SSLError, OSError):
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(here, server_hostname=called) as connection:
            return connection.version() == "TLSv1.3"
    finally:
        here.close()
        thread.join(10)
