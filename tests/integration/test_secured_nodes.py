"""Two nodes that speak TLS and know their callers: tokens, client certificates, and queries between nodes."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from harness.broker import Broker
from harness.certificates import Authority, make_authority
from harness.node_process import COMPACTED, NodeProcess, make_nodes, write
from harness.tokens import write_callers
from harness.waiting import eventually
from storekeeper.apps.settings import ClientSettings
from storekeeper.node.security.access import (
    Caller,
    Role,
    TokenRecord,
    new_token,
    read_tokens,
    token_digest,
    write_tokens,
)
from storekeeper.ops.control.node_roll import NodeViews, node_client

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

ROWS = {f"{number:04d}": {"points": number} for number in range(64)}
READER, ONE_STORE, MONITOR = new_token(), new_token(), new_token()


class Secured:
    """The two nodes, and how to ask them."""

    def __init__(self, nodes: list[NodeProcess], authority: Authority, tokens: Path) -> None:
        self.nodes = nodes
        self.tokens = tokens
        self.authority = authority
        self.client = httpx2.Client(verify=self.context(), trust_env=False, timeout=15)

    def context(self, certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if certificate:
            context.load_cert_chain(*self.authority.issue("client"))
        return context

    def get(self, node: NodeProcess, path: str, token: str | None = READER) -> httpx2.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self.client.get(node.address + path, headers=headers)

    def answer(self, node: NodeProcess, path: str) -> httpx2.Response:
        """The answer of a reader who asks again when the other node was too slow, as on a busy machine."""

        def given() -> httpx2.Response | None:
            answer = self.get(node, path)
            return None if answer.status_code == 503 else answer

        return eventually(given, 60, f"an answer to {path}")

    def ready(self, node: NodeProcess) -> bool:
        try:
            return self.get(node, "/readyz").status_code == 200
        except httpx2.TransportError:
            return False


@pytest.fixture(scope="module")
def secured(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = make_authority(folder / "ca")
    certificate, key = authority.issue("node")
    tokens = folder / "tokens"
    reader = frozenset({Role.READER})
    write_callers(
        tokens,
        {
            READER: Caller("all", reader),
            ONE_STORE: Caller("one", reader, frozenset({"open"})),
            MONITOR: Caller("watch", frozenset({Role.MONITOR})),
        },
    )
    for topic in ("secured-open", "secured-closed"):
        broker.create_topic(topic, config=COMPACTED)
        write(broker, topic, [(name.encode(), json.dumps(value).encode()) for name, value in ROWS.items()])
    nodes = make_nodes(
        broker,
        folder / "run",
        "open=secured-open,closed=secured-closed",
        replicas=0,
        tokens_file=tokens,
        tls_certificate=certificate,
        tls_key=key,
        tls_client_ca=authority.certificate,
        tls_peer_ca=authority.certificate,
    )
    peers = nodes[0].environment["STOREKEEPER_PEERS"].replace("http://", "https://")
    nodes = [
        NodeProcess(
            node.name,
            node.address.replace("http://", "https://"),
            {**node.environment, "STOREKEEPER_PEERS": peers},
            node.log_path,
        )
        for node in nodes
    ]
    found = Secured(nodes, authority, tokens)
    for node in nodes:
        node.start()
    for node in nodes:
        eventually(lambda node=node: found.ready(node), 60, f"node {node.name} is ready")  # type: ignore[misc]
    yield found
    found.client.close()
    for node in nodes:
        node.close()


def test_every_row_is_served_and_half_of_them_come_from_the_other_node(secured: Secured) -> None:
    for node in secured.nodes:
        served_by = set()
        for key, value in ROWS.items():
            answer = secured.answer(node, f"/state/keyvalue/closed/{key}")
            assert answer.json() == {"key": key, "value": value}
            served_by.add(answer.headers["storekeeper-served-by"])
        assert served_by == {"a", "b"}
        assert len(secured.get(node, "/state/keyvalues/closed/all").json()) == len(ROWS)


@pytest.mark.parametrize("path", ["/openapi.json", "/metrics", "/readyz", "/state/stores"])
def test_nothing_but_livez_is_told_to_strangers(secured: Secured, path: str) -> None:
    node = secured.nodes[0]
    for token in (None, new_token(), READER[:-1]):
        answer = secured.get(node, path, token)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert secured.get(node, "/livez", None).status_code == 200


def test_a_token_reads_what_it_may_on_whichever_node_the_row_is(secured: Secured) -> None:
    for node in secured.nodes:
        for key in ROWS:
            assert secured.get(node, f"/state/keyvalue/open/{key}", ONE_STORE).status_code == 200
            assert secured.get(node, f"/state/keyvalue/closed/{key}", ONE_STORE).status_code == 403
        assert secured.get(node, "/state/keyvalues/closed/all", ONE_STORE).status_code == 403
        assert secured.get(node, "/state/keyvalues/open/all", MONITOR).status_code == 403
        assert secured.get(node, "/metrics", MONITOR).status_code == 200


def test_without_a_certificate_there_is_no_connection(secured: Secured) -> None:
    context = secured.context(certificate=False)
    with httpx2.Client(verify=context, trust_env=False, timeout=10) as one, pytest.raises(httpx2.TransportError):
        one.get(secured.nodes[0].address + "/livez")
    with httpx2.Client(trust_env=False, timeout=10) as plain, pytest.raises(httpx2.TransportError):
        plain.get(secured.nodes[0].address.replace("https://", "http://") + "/livez")


def test_a_removed_token_is_refused_by_both_nodes_soon(secured: Secured) -> None:
    token = new_token()
    added = TokenRecord(Caller("brief", frozenset({Role.READER})), token_digest(token.encode()))
    before = read_tokens(secured.tokens)
    write_tokens(secured.tokens, [*before, added])
    for node in secured.nodes:
        eventually(lambda node=node: secured.get(node, "/readyz", token).status_code == 200, 60, "it is taken")  # type: ignore[misc]
    write_tokens(secured.tokens, before)
    for node in secured.nodes:
        eventually(lambda node=node: secured.get(node, "/readyz", token).status_code == 401, 60, "it is refused")  # type: ignore[misc]


def test_no_secret_is_in_a_command_line_or_a_log(secured: Secured) -> None:
    secret = next(secured.tokens.parent.rglob("cluster.key")).read_bytes()
    for node in secured.nodes:
        told = " ".join(psutil.Process(node.pid).cmdline()) + node.log_path.read_text()
        for word in (READER, ONE_STORE, MONITOR, secret.hex()):
            assert word not in told


def test_the_command_line_reads_with_a_token_and_a_certificate(secured: Secured, tmp_path: Path) -> None:
    certificate, key = secured.authority.issue("shell")
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(READER)
    options = (
        "--token-file",
        token,
        "--ca",
        secured.authority.certificate,
        "--certificate",
        certificate,
        "--key-file",
        key,
    )
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "from storekeeper.cli.entry import main; main()",
            "get",
            "closed",
            "0007",
            *map(str, options),
        ],
        env={**os.environ, **secured.nodes[0].environment},  # noqa: TID251 - the child needs PATH and the like
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert ROWS["0007"].items() <= (json.loads(found.stdout).get("value") or json.loads(found.stdout)).items()


def test_the_task_that_restarts_nodes_asks_them_with_a_token_and_a_certificate(
    secured: Secured, tmp_path: Path
) -> None:
    certificate, key = secured.authority.issue("airflow")
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(READER)
    peers = secured.nodes[0].environment["STOREKEEPER_PEERS"]
    settings = ClientSettings(
        run_dir=tmp_path,
        peers=peers,
        client_token_file=token,
        client_ca_file=secured.authority.certificate,
        client_certificate_file=certificate,
        client_key_file=key,
    )
    addresses = settings.node_addresses
    with node_client(settings) as http:
        views = NodeViews(addresses, http)
        assert {node: views.is_warm(node) for node in addresses} == dict.fromkeys(addresses, True)
        assert {member["name"] for member in (views.cluster() or {})["members"]} == set(addresses)
    nameless = settings.model_copy(update={"client_token_file": None})
    with node_client(nameless) as http:
        assert NodeViews(addresses, http).cluster() is None
