"""The commands of generations, on a file in the run directory instead of an app: `toy.json`.

`refuse` in it names a step that is refused; `calls` are the steps that were taken. A plan says what it was asked for.
Any other command adds a line to the file `began`, and ends once there is no file `hold`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_FIRST = {"live": 1, "candidate": None, "standby": None, "calls": [], "behind": 20, "refuse": ""}


def main(arguments: list[str]) -> int:
    """Takes one step."""
    path = Path(os.environ["STOREKEEPER_RUN_DIR"]) / "toy.json"  # noqa: TID251 (it stands for a command)
    state: dict[str, Any] = {**_FIRST, **(json.loads(path.read_text()) if path.exists() else {})}
    assert arguments[-2:] == ["--output", "json"]
    arguments = arguments[:-2]
    if arguments[0] not in {"generation", "snapshot"}:
        return _other(arguments, path.parent)
    step = "snapshot" if arguments[0] == "snapshot" else arguments[1]
    if step == "plan":
        sys.stdout.write(json.dumps({"text": "a plan", "asked": arguments[2:]}) + "\n")
        return 0
    if step != "status":
        state["calls"].append(" ".join(arguments))
    refused = step == state["refuse"]
    if not refused:
        _STEPS[step](state)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state))
    if refused:
        sys.stderr.write(f"storekeeper: {step} can't be\n")
        return 5
    sys.stdout.write(f"chatter\n{json.dumps(_told(state, arguments[2] if len(arguments) > 2 else ''))}\n")
    return 0


def _other(arguments: list[str], run_dir: Path) -> int:
    """Stands for a command that takes a while."""
    with (run_dir / "began").open("a") as began:
        began.write(f"{' '.join(arguments)}\n")
    while (run_dir / "hold").exists():
        time.sleep(0.05)
    answer = {"rows": 3, "text": "a preview", "cleanup_id": "20260131T120000000Z", "published": True}
    sys.stdout.write(f"{json.dumps(answer)}\n")
    return 0


def _seed(state: dict[str, Any]) -> None:
    state["candidate"] = state["candidate"] or 2


def _status(state: dict[str, Any]) -> None:
    state["behind"] = max(0, state["behind"] - 15)


def _handover(state: dict[str, Any]) -> None:
    state |= {"live": state["candidate"], "standby": state["live"], "candidate": None}


def _rollback(state: dict[str, Any]) -> None:
    state |= {"live": state["standby"], "standby": state["live"]}


def _snapshot(state: dict[str, Any]) -> None:
    """Nothing that lasts."""


def _retire(state: dict[str, Any]) -> None:
    state["standby"] = None


_STEPS = {
    "seed": _seed,
    "status": _status,
    "handover": _handover,
    "snapshot": _snapshot,
    "rollback": _rollback,
    "retire": _retire,
}


def _told(state: dict[str, Any], app: str) -> dict[str, Any]:
    beat = {"state": "RUNNING", "generation": state["live"], "pid": 1, "age_ms": 100, "error": None, "problem": None}
    return {
        "app": app,
        **{name: state[name] for name in ("live", "candidate", "standby")},
        "stores": ["prices", "more-prices"] if app == "ticks" else ["rewards"],
        "generations": [{"generation": 2, "records_behind_live": state["behind"], "last_batch": 0}],
        "processes": {app: beat, f"{app}-next": beat},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
