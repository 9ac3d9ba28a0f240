"""A node that shows made-up clusters: the real page, before answers that a test chooses."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from storekeeper.node.query.page.routes import page_routes

STORES = {
    "rewards": ("keyvalue", "pos-rewards-changelog", 8),
    "players": ("ranked", "leaderboard-players-changelog", 8),
    "sales": ("window", "sales_windows-sales-changelog", 8),
    "user-sessions": ("session", "session_tracker-user-sessions-changelog", 8),
    "order-locations": ("global", "order-locations", 2),
}
NODES = {"a": "http://127.0.0.1:18101", "b": "http://127.0.0.1:18102", "c": "http://127.0.0.1:18103"}

QUERIES = (
    ("rewards", "keys that begin with", "..", "/state/keyvalues/rewards/prefix/Li4=?key_format=base64url&limit=10"),
    ("rewards", "keys that begin with", "", "/state/keyvalues/rewards/all?&limit=10"),
    ("players", "rank of a key", "4711", "/state/ranked/players/rank/4711?key_format=string"),
    ("sales", "windows of a key, or of all", "s1", "/state/windowed/sales/s1/1000000/2000000?key_format=string"),
    (
        "sales",
        "windows of a key, or of all",
        "all",
        "/state/windowed/sales/YWxs/1000000/2000000?key_format=base64url",
    ),
    ("sales", "windows of a key, or of all", "", "/state/windowed/sales/all/1000000/2000000"),
    ("user-sessions", "sessions of a key", "ended", "/state/sessions/user-sessions/ZW5kZWQ=?key_format=base64url"),
    ("user-sessions", "sessions that ended", "", "/state/sessions/user-sessions/ended/1000000/2000000?limit=10"),
    (
        "user-sessions",
        "sessions still active",
        "",
        "/state/sessions/user-sessions/active?at_ms=2000000&gap_ms=1800000&limit=10",
    ),
)
"""A store, a query, a key, and the path that the page asks."""


@dataclass(slots=True)
class Shown:
    """What the node says. `answers` are by path; a value is sent as JSON, with `headers`. `live`: topics behind stores
    after a change of generations.
    """

    replicas: dict[str, list[dict[str, Any]]]
    suspects: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    settling: set[str] = field(default_factory=set)
    gets: int = 0
    cluster: bool = True
    token: str | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""


def replica(
    node: str, store: str, partition: int, role: str, *, state: str = "RUNNING", lag: int = 0
) -> dict[str, Any]:
    """One replica as `/state/lag` shows it."""
    return {
        "store": store,
        "partition": partition,
        "topic": STORES[store][1],
        "node": node,
        "role": role,
        "state": state,
        "serving": state == "RUNNING",
        "offset": 10_000 + 37 * partition,
        "end_offset": 10_000 + 37 * partition + lag,
        "offset_lag": lag,
        "restored_records": 0,
        "skipped_records": 0,
        "skipped_reasons": {},
        "last_skipped_offset": None,
        "unranked_rows": None,
        "error": None,
    }


def healthy() -> Shown:
    """Three nodes with all of five stores, each partition on two of them."""
    nodes = sorted(NODES)
    replicas: dict[str, list[dict[str, Any]]] = {node: [] for node in nodes}
    for number, (store, (kind, _, partitions)) in enumerate(STORES.items()):
        for partition in range(partitions):
            held = nodes if kind == "global" else [nodes[(partition * 2 + number + n) % 3] for n in (0, 1)]
            for place, node in enumerate(held):
                role = "active" if place == 0 else "standby"
                replicas[node].append(replica(node, store, partition, role))
    return Shown(replicas)


def page_app(shown: Shown) -> FastAPI:
    """The page, and the answers of `shown`."""
    app = FastAPI(docs_url=None)
    app.include_router(page_routes())

    @app.get("/state/stores")
    async def stores() -> list[dict[str, Any]]:
        return [
            {
                "store": store,
                "topic": shown.live.get(store, topic),
                "kind": kind,
                "backend": "rocksdb",
                "partitions": partitions,
                "active": [],
                "standby": [],
            }
            for store, (kind, topic, partitions) in STORES.items()
        ]

    @app.get("/state/lag")
    async def lag() -> dict[str, Any]:
        return {"node": "a", "replicas": shown.replicas["a"]}

    @app.get("/state/instances")
    async def instances(request: Request) -> list[dict[str, Any]]:
        here = {"host": request.url.hostname, "port": request.url.port, "storeNames": list(STORES)}
        return [here, {"host": "127.0.0.1", "port": 18102, "storeNames": list(STORES)}]

    @app.get("/state/cluster")
    async def cluster() -> Response:
        if not shown.cluster:
            return JSONResponse({"type": "urn:storekeeper:problem:unknown-route", "detail": "no such path"}, 404)
        known = [
            {
                "name": name,
                "address": address,
                "rack": "",
                "suspect": name in shown.suspects | shown.missing,
                "settling": name in shown.settling,
                "heard": True,
                "silent_s": 42.0 if name in shown.missing else 0.0,
                "replicas": [] if name in shown.missing else shown.replicas[name],
            }
            for name, address in NODES.items()
        ]
        missing = [node for node in known if node["name"] in shown.missing]
        members = [node for node in known if node not in missing]
        epoch = "9f2c41d07be3"
        return JSONResponse({"node": "a", "epoch": epoch, "members": members, "missing": missing, "assignment": {}})

    @app.get("/metrics")
    async def metrics() -> Response:
        shown.gets += 1840
        name, labels = "state_store_operation_seconds", 'store="rewards",op="get"'
        lines = [
            f'{name}_bucket{{{labels},le="0.000016"}} {shown.gets * 0.7}',
            f'{name}_bucket{{{labels},le="0.000064"}} {shown.gets * 0.995}',
            f'{name}_bucket{{{labels},le="+Inf"}} {shown.gets}',
            f"{name}_count{{{labels}}} {shown.gets}",
        ]
        return Response("\n".join(lines), media_type="text/plain")

    _answer_and_guard(app, shown)
    return app


def _answer_and_guard(app: FastAPI, shown: Shown) -> None:
    @app.get("/state/{rest:path}")
    async def answer(request: Request) -> Response:
        path = request.scope["raw_path"].decode() + (f"?{request.url.query}" if request.url.query else "")
        shown.asked.append(path)
        if path not in shown.answers:
            return JSONResponse({"type": "urn:storekeeper:problem:unknown-key", "detail": "there is no such key"}, 404)
        body, headers = shown.answers[path]
        return Response(body, headers=headers, media_type="application/json")

    @app.middleware("http")
    async def sign_in(request: Request, following: Any) -> Any:
        guarded = request.url.path.startswith(("/state", "/metrics"))
        if guarded and shown.token and request.headers.get("authorization") != f"Bearer {shown.token}":
            return JSONResponse({"type": "urn:storekeeper:problem:unauthenticated", "detail": "a token is needed"}, 401)
        return await following(request)


@contextmanager
def served(shown: Shown) -> Iterator[uvicorn.Server]:
    """Serves it on a free port, in a thread, until the end of the block or until `should_exit` is set."""
    config = uvicorn.Config(page_app(shown), host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=64)]
    shown.address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets)), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(10)
        for one in sockets:
            one.close()
