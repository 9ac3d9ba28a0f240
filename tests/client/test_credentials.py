"""What a client shows, to whom, and what it never shows."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from harness.certificates import Authority, make_authority
from storekeeper.client.credentials import Credentials
from storekeeper.errors import ConfigurationError, StoreUnavailableError
from tests.client.both import QUICK, Either
from tests.client.fake_node import answers, fake_node
from tests.silent_peer import silent_peer

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
SECRET = "skt_never-shown"
_callers: list[tuple[str, int]] = []


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(authority: Authority) -> Iterator[str]:
    """A node that speaks TLS and takes only clients whose certificate the authority has signed."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        del receive
        _callers.append(scope["client"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"key": "k", "value": 5}'})

    certificate, key = authority.issue("node")
    config = uvicorn.Config(
        app,
        log_level="critical",
        lifespan="off",
        ws="none",
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
        ssl_ca_certs=str(authority.certificate),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listening.close()


@needs_openssl
def test_a_client_with_the_authority_and_a_certificate_is_answered(
    client: Either, guarded: str, authority: Authority
) -> None:
    certificate, key = authority.issue("reader")
    shown = Credentials(ca_file=authority.certificate, certificate_file=certificate, key_file=key)
    _callers.clear()
    with client(guarded, credentials=shown) as asking:
        assert [asking.get().value for _ in range(3)] == [5] * 3
    assert len(_callers) >= 3
    assert len(set(_callers)) <= 2, "a connection by TLS is used again"


@needs_openssl
def test_a_node_that_cannot_be_verified_is_told_nothing_and_not_asked_again(client: Either, guarded: str) -> None:
    with (
        client(guarded, credentials=Credentials(token=SECRET)) as asking,
        pytest.raises(ConfigurationError, match="certificate can't be verified") as caught,
    ):
        asking.get()
    assert not isinstance(caught.value, StoreUnavailableError)


@needs_openssl
def test_a_client_without_a_certificate_is_not_answered(client: Either, guarded: str, authority: Authority) -> None:
    limits = type(QUICK)(timeout_s=0.6)
    with (
        client(guarded, credentials=Credentials(ca_file=authority.certificate), limits=limits) as asking,
        pytest.raises(StoreUnavailableError),
    ):
        asking.get()


def test_a_handshake_that_is_given_up_leaves_no_connection(client: Either) -> None:
    limits = type(QUICK)(timeout_s=0.5, attempt_s=0.2)
    with silent_peer() as peer, client(f"https://{peer.address}", limits=limits) as asking:
        with pytest.raises(StoreUnavailableError):
            asking.get()
        peer.sees_the_end()


def test_the_token_goes_with_each_query_and_a_new_one_in_the_file_is_taken(client: Either, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("skt_one\n")
    with fake_node(answers()) as node, client(node.address, credentials=Credentials(token_file=file)) as asking:
        asking.get()
        file.write_text("skt_two\n")
        asking.get()
        heads = [head.lower() for head in node.heads if "keyvalue" in head]
        assert "authorization: bearer skt_one" in heads[0]
        assert "authorization: bearer skt_two" in heads[1]


def test_a_token_is_never_shown(client: Either, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown = Credentials(token=SECRET)
    assert SECRET not in repr(shown)
    with (
        client("http://127.0.0.1:1", credentials=shown, limits=type(QUICK)(timeout_s=0.2)) as asking,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        asking.get()
    assert SECRET not in str(caught.value) + caplog.text


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ü"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Credentials(token=token).headers()
    assert not token or token not in str(caught.value)


def test_files_that_cannot_be_read(client: Either, tmp_path: Path) -> None:
    for wrong in (
        Credentials(token_file=tmp_path / "none"),
        Credentials(ca_file=tmp_path / "none"),
        Credentials(certificate_file=tmp_path / "none"),
    ):
        with pytest.raises(ConfigurationError):
            client("http://127.0.0.1:1", credentials=wrong)
    with pytest.raises(ConfigurationError):
        Credentials(token="a", token_file=tmp_path / "none")
