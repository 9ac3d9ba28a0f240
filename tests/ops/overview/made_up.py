"""A platform that isn't there: what the views are shown in their tests."""

from __future__ import annotations

from dataclasses import replace

from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.ops.overview.model import App, LastVerdict, Node, Overview, Process, Store
from storekeeper.ops.supervisor_rpc import ProcessInfo
from storekeeper.quality.resolution import Action, Resolution
from storekeeper.quality.verdict import Status, Verdict

NOW_MS = 1_700_000_000_000
BEAT = Heartbeat(
    "pos",
    2,
    7,
    AppState.RUNNING,
    started_at_ms=NOW_MS - 90_000,
    updated_at_ms=NOW_MS - 1000,
    last_progress_ms=NOW_MS - 1000,
    last_batch_ms=NOW_MS - 60_000,
    batch_id=4,
    input_rows_per_second=12.5,
    offsets={"pos": {"0": 10, "1": 5}},
    latest_offsets={"pos": {"0": 17, "1": 4}},
)
EVIL = "<img src=x onerror=\"document.title='owned'\">"
RESTORING = "restores 2 store partitions: 25 %, 9 s left"
_ONE = {"store": "rewards", "partition": 0, "done": 10, "total": 100, "eta_s": 9.4}
_TWO = {"store": "rewards", "partition": 1, "done": 40, "total": 100, "eta_s": 2.0}


def app(name: str = "pos", *, process: ProcessInfo | None = None, at_ms: int = NOW_MS, **changes: object) -> App:
    """An app whose heartbeat is `BEAT` with some changes."""
    return App(name, at_ms, replace(BEAT, app=name, **changes), process)  # type: ignore[arg-type]


def quarantined(action: Action | None = None, rows: int = 126) -> LastVerdict:
    """A batch that broke a rule a minute ago, and what was decided on it."""
    verdict = Verdict("hadoop_export", Status.QUARANTINED, 4, 5, rows, NOW_MS - 60_000)
    if action is None:
        return LastVerdict(verdict)
    return LastVerdict(verdict, Resolution("hadoop_export", action, 4, 5, "meera", "test data", (), rows, NOW_MS))


def store(name: str = "rewards", *, serving: int = 8, kind: str = "keyvalue") -> Store:
    """A store with eight replicas."""
    return Store(name, kind, f"pos-{name}-changelog", 4, 8, serving, True, 5, 3_600_000, 1501)


SEEN = Overview(
    NOW_MS,
    processes=[
        Process("pos", "RUNNING", True, 7, 90, None, ""),
        Process("node-a", "RUNNING", True, 8, 1, "http://a", "", True, 2, "terminated by SIGKILL", 300_000),
    ],
    apps=[
        app(
            started_at_ms=NOW_MS - 300_000,
            last_batch_ms=None,
            batch_id=None,
            restoring=(_ONE, _TWO),
            dropped_total=2,
        ),
        app("ticks", state=AppState.STOPPED, last_batch_ms=NOW_MS - 900_000),
        app("hadoop_export", state=AppState.FAILED, dead_letters_total=3, error=EVIL),
    ],
    stores=[store(serving=4)],
    nodes=[
        Node("a", "http://127.0.0.1:18101", 4, 4, "answers", None),
        Node("b", "javascript:alert(1)", None, 0, "hangs", "no answer within 1 s"),
    ],
    verdicts=[quarantined(Action.DISCARDED)],
    topologies=frozenset({"pos"}),
)
