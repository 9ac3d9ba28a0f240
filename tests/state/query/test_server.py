"""The server in front of TLS: who doesn't get on with the handshake is sent away."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from state.query import server
from state.query.server import serve
from tests.ports import free_ports
from tests.state.security.certificates import make_authority


async def application(_scope: dict[str, Any], _receive: Any, _send: Any) -> None:
    """Is asked nothing."""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_who_begins_no_handshake_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HANDSHAKE_S", 0.1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_authority(tmp_path / "ca").issue("node"))
    (port,) = free_ports(1)

    async def scenario() -> bytes:
        stop = asyncio.Event()
        serving = asyncio.create_task(serve(application, "127.0.0.1", port, stop, tls=context))
        await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()
            stop.set()
            await serving

    assert asyncio.run(scenario()) == b""
