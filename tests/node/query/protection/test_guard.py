"""The guard in front of the routes, with a small application behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.tokens import write_callers
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.node.query.protection.guard import Guard, GuardLimits
from storekeeper.node.security.access import (
    Authenticator,
    Caller,
    HostRule,
    Role,
    TokenBook,
    new_token,
)
from storekeeper.node.security.hop import ANONYMOUS, FOR_ITSELF, HopSigner, HopVerifier, asked_for
from storekeeper.trace_context import current_trace
from tests.test_trace_context import TRACE

SECRET = b"s" * 32
LIMITS = GuardLimits(
    max_url_bytes=200,
    max_headers=8,
    max_header_bytes=500,
    max_body_bytes=100,
    max_requests=2,
    body_timeout_s=0.05,
    max_deadline_s=0.2,
)
HOST = (b"host", b"127.0.0.1:1")
Headers = list[tuple[bytes, bytes]]
App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Echo:
    """Answers with what reached it."""

    def __init__(self, then: Callable[[], Awaitable[None]] | None = None, media_type: bytes = b"text/plain") -> None:
        self.seen: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self._then = then
        self._media_type = media_type

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.seen.append(scope)
        if self._then is not None:
            await self._then()
        if scope["method"] == "POST":
            self.bodies.append((await receive())["body"])
        headers = [(b"content-type", self._media_type)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


def guarded(app: App, authenticator: Authenticator | None = None) -> Guard:
    clock = SystemClock()
    hops = HopVerifier("a", SECRET, clock)
    return Guard(
        app,
        "a",
        limits=LIMITS,
        authenticator=authenticator or Authenticator(),
        hops=hops,
        hosts=HostRule(),
    )


async def ask(
    guard: Guard,
    target: str,
    headers: Headers | None = None,
    method: str = "GET",
    body: list[bytes] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path.replace("%6e", "n"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [HOST] if headers is None else headers,
    }
    parts, sent = list(body or []), []

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts) or body == [b"endless"]}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    headers_sent = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers_sent, b"".join(message.get("body", b"") for message in sent[1:])


def kind(body: bytes) -> str:
    return str(orjson.loads(body)["type"]).rpartition(":")[2]


@pytest.mark.parametrize(
    ("target", "headers", "told"),
    [
        ("/x", [(b"host", b"evil.example.org")], (403, "forbidden")),
        ("/x", [HOST, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"no-cors")], (403, "forbidden")),
        ("/x?" + "q" * 200, None, (414, "uri-too-long")),
        ("/x", [HOST] * 9, (431, "headers-too-large")),
        ("/x", [HOST, (b"x", b"y" * 500)], (431, "headers-too-large")),
        ("/state/keyvalue/rew%2Fards/1", None, (400, "invalid-argument")),
        ("/state/keyvalue/rewards%00/1", None, (400, "invalid-argument")),
        ("/x", [HOST, (b"storekeeper-hop", b"b")], (403, "hop-refused")),
        ("/state/keyvalue/rewards/1", [HOST, (b"storekeeper-hop", b"b")], (403, "hop-refused")),
        ("/internal/scan/rewards", None, (403, "hop-refused")),
        ("/i%6eternal/scan/rewards", None, (403, "hop-refused")),
        ("/x", [HOST, (b"authorization", b"a"), (b"authorization", b"b")], (400, "invalid-argument")),
        ("/x?deadline_ms=0", None, (400, "invalid-argument")),
        ("/x?deadline_ms=-1", None, (400, "invalid-argument")),
        ("/x?deadline_ms=" + "9" * 30, None, (400, "invalid-argument")),
        ("/x", [], (400, "invalid-argument")),
        ("/x", [HOST, HOST], (400, "invalid-argument")),
        ("/x", [HOST, (b"content-length", b"101")], (413, "body-too-large")),
        ("/x", [HOST, (b"content-length", b"x")], (413, "body-too-large")),
    ],
)
def test_is_refused_before_it_reaches_the_application(
    target: str, headers: Headers | None, told: tuple[int, str]
) -> None:
    app = Echo()
    status, sent, body = asyncio.run(ask(guarded(app), target, headers))
    assert (status, kind(body)) == told
    assert sent["x-content-type-options"] == "nosniff"
    assert app.seen == []


@pytest.mark.parametrize("headers", [None, [HOST, (b"sec-fetch-site", b"same-origin")]])
def test_what_is_in_order_reaches_it(headers: Headers | None) -> None:
    app = Echo()
    assert asyncio.run(ask(guarded(app), "/x?deadline_ms=50", headers))[0] == 200


def test_answers_are_nobodys_to_keep_and_pages_bring_a_policy() -> None:
    headers = asyncio.run(ask(guarded(Echo()), "/x"))[1]
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert "content-security-policy" not in headers
    page = asyncio.run(ask(guarded(Echo(media_type=b"text/html; charset=utf-8")), "/"))[1]
    assert page["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert page["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("parts", [[b"x" * 101], [b"x" * 60, b"x" * 60]])
def test_a_body_is_measured_as_it_comes_whatever_was_announced(parts: list[bytes]) -> None:
    for announced in ((b"transfer-encoding", b"chunked"), (b"content-length", b"5")):
        app = Echo()
        status, headers, body = asyncio.run(ask(guarded(app), "/x", [HOST, announced], "POST", parts))
        assert (status, kind(body), headers["connection"]) == (413, "body-too-large", "close")
        assert app.seen == []


def test_a_body_that_never_ends_is_refused_in_time() -> None:
    headers = [HOST, (b"transfer-encoding", b"chunked")]
    status, _, body = asyncio.run(ask(guarded(Echo()), "/x", headers, "POST", [b"endless"]))
    assert (status, kind(body)) == (408, "body-too-slow")


def test_a_body_within_the_limit_arrives_whole() -> None:
    app = Echo()
    headers = [HOST, (b"transfer-encoding", b"chunked")]
    assert asyncio.run(ask(guarded(app), "/x", headers, "POST", [b"a" * 50, b"b" * 50]))[0] == 200
    assert app.bodies == [b"a" * 50 + b"b" * 50]


def test_an_answer_that_is_late_is_given_up() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    status, headers, body = asyncio.run(ask(guarded(Echo(forever)), "/x?deadline_ms=20"))
    assert (status, kind(body), headers["retry-after"]) == (503, "deadline-exceeded", "1")
    assert asyncio.run(ask(guarded(Echo(forever)), "/x"))[0] == 503


def test_more_requests_than_allowed_are_refused_and_make_room_again() -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def wait() -> None:
            await go.wait()

        guard = guarded(Echo(wait))
        running = [asyncio.create_task(ask(guard, "/state/keyvalue/s/k")) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers, body = await ask(guard, "/x")
        assert (status, kind(body), headers["retry-after"]) == (429, "too-many-requests", "1")
        go.set()
        assert [found[0] for found in await asyncio.gather(*running)] == [200, 200]
        assert (await ask(guard, "/x"))[0] == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(("deadline_ms", "status"), [(20_000, 200), (50, 503)])
def test_a_signed_hop_reaches_it_and_its_deadline_is_kept(deadline_ms: int, status: int) -> None:
    signer = HopSigner("b", SECRET, SystemClock(), lambda: ANONYMOUS)
    headers = signer("a", "GET", "/internal/scan/s?rows=1", b"", deadline_ms)
    encoded = [HOST, *((name.encode(), value.encode()) for name, value in headers.items())]

    async def never() -> None:
        await asyncio.Event().wait()

    app = Echo() if status == 200 else Echo(never)
    assert asyncio.run(ask(guarded(app), "/internal/scan/s?rows=1", encoded))[0] == status
    assert len(app.seen) == 1


@pytest.fixture
def authenticator(tmp_path: Path) -> tuple[Authenticator, bytes]:
    token = new_token()
    caller = Caller("r", frozenset({Role.READER}), frozenset({"rewards"}))
    write_callers(tmp_path / "tokens", {token: caller})
    return Authenticator(TokenBook(tmp_path / "tokens", ManualClock())), b"Bearer " + token.encode()


def test_with_tokens_only_livez_and_the_files_of_the_page_are_open(authenticator: tuple[Authenticator, bytes]) -> None:
    guard, right = guarded(Echo(), authenticator[0]), [HOST, (b"authorization", authenticator[1])]
    for path in ("/openapi.json", "/metrics", "/readyz", "/state/keyvalue/rewards/1", "/state/keyvalues/rewards/all"):
        status, headers, body = asyncio.run(ask(guard, path))
        assert (status, kind(body), headers["www-authenticate"]) == (401, "unauthenticated", "Bearer")
        assert asyncio.run(ask(guard, path, right))[0] == 200
    assert [asyncio.run(ask(guard, path))[0] for path in ("/livez", "/", "/docs", "/page/app.js")] == [200] * 4
    for path in ("/livez/../metrics", "/pagex", "/state/stores"):
        assert asyncio.run(ask(guard, path))[0] == 401
    status, _, body = asyncio.run(ask(guard, "/state/keyvalue/other/1", right))
    assert (status, kind(body)) == (403, "forbidden")


def test_a_strangers_body_is_not_read(authenticator: tuple[Authenticator, bytes]) -> None:
    headers = [HOST, (b"transfer-encoding", b"chunked")]
    for path in ("/x", "/livez", "/", "/page/app.js"):
        assert asyncio.run(ask(guarded(Echo(), authenticator[0]), path, headers, "POST", [b"endless"]))[0] == 401
    claims = [*headers, (b"storekeeper-hop", b"b"), (b"storekeeper-hop-signature", b"s.1.2.d.m")]
    status, _, body = asyncio.run(ask(guarded(Echo()), "/internal/keys/s", claims, "POST", [b"endless"]))
    assert (status, kind(body)) == (403, "hop-refused")


def test_a_repair_needs_the_secret_of_the_cluster(authenticator: tuple[Authenticator, bytes]) -> None:
    app, path = Echo(), "/internal/repair/rewards/0"
    guard = guarded(app, authenticator[0])
    for headers in ([HOST], [HOST, (b"authorization", authenticator[1])]):
        assert asyncio.run(ask(guard, path, headers, "POST"))[0] in {401, 403}
    assert app.seen == []
    signed = HopSigner("verify", SECRET, SystemClock())("a", "POST", path, b"", 1000)
    encoded = [HOST, *((name.encode(), value.encode()) for name, value in signed.items())]
    assert asyncio.run(ask(guard, path, encoded, "POST"))[0] == 200


def test_a_hop_comes_with_the_body_that_was_signed() -> None:
    app, target = Echo(), "/internal/keys/s"
    for sent, told in ((b"[]", 200), (b"[1]", 403)):
        headers = HopSigner("b", SECRET, SystemClock(), lambda: ANONYMOUS)("a", "POST", target, b"[]", 150)
        encoded = [HOST, *((name.encode(), value.encode()) for name, value in headers.items())]
        length = (b"content-length", b"%d" % len(sent))
        assert asyncio.run(ask(guarded(app), target, [*encoded, length], "POST", [sent]))[0] == told
    assert app.bodies == [b"[]"]


def test_a_hop_for_a_caller_is_checked_again_here(authenticator: tuple[Authenticator, bytes]) -> None:
    guard, target = guarded(Echo(), authenticator[0]), "/state/keyvalue/other/1"
    for caller, told in (("r", 403), (ANONYMOUS, 401), ("unknown", 401)):
        headers = HopSigner("b", SECRET, SystemClock(), lambda caller=caller: caller)("a", "GET", target, b"", 150)  # type: ignore[misc]
        encoded = [HOST, *((name.encode(), value.encode()) for name, value in headers.items())]
        assert asyncio.run(ask(guard, target, encoded))[0] == told


@pytest.mark.parametrize(("given", "kept"), [(TRACE, TRACE.decode()), (b"nonsense", None), (None, None)])
def test_the_trace_of_a_request_is_kept_for_what_it_asks_others(given: bytes | None, kept: str | None) -> None:
    seen: list[str | None] = []

    async def note() -> None:
        seen.append(current_trace.get())

    async def two() -> None:
        guard = guarded(Echo(note))
        await ask(guard, "/x", [HOST, (b"traceparent", TRACE)])
        await ask(guard, "/x", [HOST] if given is None else [HOST, (b"traceparent", given)])

    asyncio.run(two())
    assert seen == [TRACE.decode(), kept]


def test_a_node_asks_others_for_its_caller(authenticator: tuple[Authenticator, bytes]) -> None:
    seen: list[str] = []

    async def note() -> None:
        seen.append(asked_for.get())

    asyncio.run(ask(guarded(Echo(note)), "/x", [HOST]))
    token = (b"authorization", authenticator[1])
    asyncio.run(ask(guarded(Echo(note), authenticator[0]), "/state/keyvalue/rewards/1", [HOST, token]))
    assert seen == [ANONYMOUS, "r"]
    assert asked_for.get() == FOR_ITSELF, "outside a request"
