"""What a node needs before it listens beyond loopback."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import Authority, make_authority
from harness.tokens import write_callers
from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import Caller, Role, new_token
from storekeeper.node.security.exposure import NodeSecurity, checked_exposure
from storekeeper.node.settings import NodeSettings

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
BEYOND = "0.0.0.0"  # noqa: S104 - nothing listens in these tests


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> dict[str, Any]:
    certificate, key = authority.issue("node")
    write_callers(tmp_path / "tokens", {new_token(): Caller("r", frozenset({Role.READER}))})
    return {
        "run_dir": tmp_path / "run",
        "listen_host": BEYOND,
        "tls_certificate": certificate,
        "tls_key": key,
        "tls_client_ca": authority.certificate,
        "tls_peer_ca": authority.certificate,
        "tokens_file": tmp_path / "tokens",
        "peers": "a=https://10.1.0.1:18101",
        "peer_networks": "10.1.0.0/16",
    }


def settings(files: dict[str, Any], **changed: Any) -> NodeSettings:
    return NodeSettings(**(files | changed))


@pytest.mark.parametrize("without", [(), ("tls_client_ca",), ("tokens_file",)])
def test_tls_and_one_kind_of_authentication_are_enough(files: dict[str, Any], without: tuple[str, ...]) -> None:
    security = NodeSecurity.of("a", settings(files, **dict.fromkeys(without)), SystemClock())
    assert security.tls is not None
    assert not security.authenticator.open
    context = security.tls.server_context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert (context.verify_mode == ssl.CERT_REQUIRED) == ("tls_client_ca" not in without)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tls_certificate": None, "tls_key": None, "tls_client_ca": None}, "beyond loopback, needs TLS"),
        ({"tokens_file": None, "tls_client_ca": None}, "needs authentication"),
        ({"tls_key": None}, "needed together"),
        ({"tls_certificate": None}, "needed together"),
        ({"tls_certificate": None, "tls_key": None}, "as well"),
        ({"tls_certificate": Path("/nowhere")}, "can't be used"),
        ({"tls_client_ca": Path("/nowhere")}, "can't be used"),
        ({"tls_peer_ca": Path("/nowhere")}, "can't be used"),
        ({"peers": "a=http://10.1.0.1:18101"}, "must be https"),
        ({"peers": "a=http://node-a:18101"}, "must be https"),
    ],
)
def test_anything_less_is_refused_in_a_sentence(files: dict[str, Any], changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        checked_exposure(settings(files, **changed))


def test_files_that_others_can_read_or_that_do_not_belong_together_are_refused(
    files: dict[str, Any], authority: Authority
) -> None:
    _, other_key = authority.issue("other")
    with pytest.raises(ConfigurationError, match="belong together"):
        checked_exposure(settings(files, tls_key=other_key))
    other_key.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        checked_exposure(settings(files, tls_key=other_key))


def test_loopback_needs_nothing_and_may_have_it(files: dict[str, Any], tmp_path: Path) -> None:
    plain = NodeSecurity.of("a", NodeSettings(run_dir=tmp_path / "run"), SystemClock())  # type: ignore[call-arg]
    assert plain.tls is None
    assert plain.authenticator.open
    assert plain.hosts is not None
    switched_on = NodeSecurity.of(
        "a",
        NodeSettings(run_dir=tmp_path / "run", tokens_file=files["tokens_file"]),  # type: ignore[call-arg]
        SystemClock(),
    )
    assert not switched_on.authenticator.open
