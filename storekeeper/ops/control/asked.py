"""Answers that need the code of apps, by a process of its own: the control process loads none, so it has no old one.

Run as `python -m storekeeper.ops.control.asked QUESTION NAME`, it prints one line of JSON, `answer` or `problem`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.node.query.answers.answer import Problem
from storekeeper.ops.control.problems import AskedError, NothingToShowError, control_problem

_TIMEOUT_S = 60


def asked(question: str, name: str) -> Any:
    """The answer of such a process.

    Args:
        question: `topology` or `waiting`.
        name: of the app or the table, which is known.

    Raises:
        AskedError: it answers with a problem.
        RuntimeError: it ends without an answer.
    """
    command = [sys.executable, "-m", "storekeeper.ops.control.asked", question, name]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False)
    try:
        found = orjson.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        msg = f"{question} of {name} has no answer: {done.stderr.decode('utf-8', 'replace').strip()[-2000:]}"
        raise RuntimeError(msg) from None
    if "problem" in found:
        raise AskedError(Problem(*found["problem"]))
    return found["answer"]


def _topology(app: str) -> dict[str, str]:
    from storekeeper.apps.registry import APPS  # noqa: PLC0415 (loads all apps)
    from storekeeper.apps.settings import AppSettings  # noqa: PLC0415
    from storekeeper.generations.live import live_topology, topology_text  # noqa: PLC0415

    try:
        spec = APPS[app]
        topology = live_topology(spec, AppSettings())
    except ConfigurationError as error:
        raise NothingToShowError(str(error)) from error
    return {"svg": topology.svg(), "text": topology_text(spec, topology), "mermaid": topology.mermaid()}


def _waiting(table: str) -> Mapping[str, Any] | None:
    from storekeeper.quality.settings import QualitySettings  # noqa: PLC0415 (loads all apps)
    from storekeeper.quality.table_gate import waiting_of  # noqa: PLC0415

    found = waiting_of(table, QualitySettings.of_platform(), SystemClock())
    return None if found is None else asdict(found)


_ANSWERS: Mapping[str, Callable[[str], Any]] = {
    "topology": _topology, "waiting": _waiting,
}  # fmt: skip


def _main(question: str, name: str) -> None:
    try:
        found = {"answer": _ANSWERS[question](name)}
    except StateError as error:
        problem = control_problem(error)
        found = {"problem": [problem.kind, problem.status, problem.detail, problem.retry]}
    sys.stdout.buffer.write(b"%s\n" % orjson.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
