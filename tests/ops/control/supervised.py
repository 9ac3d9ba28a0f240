"""A real supervisord in a folder of its own, with toy apps."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.waiting import eventually
from storekeeper.apps.registry import apps_of
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.supervisor_rpc import SupervisorRpc

APPS = ("pos", "hadoop_export", "pos-next", "shared_driver", "ticks-next")
_START_S = 120
_PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Supervised:
    """A running supervisor, and the run directory that it and its apps use."""

    run_dir: Path
    rpc: SupervisorRpc
    password: str
    _process: subprocess.Popen[bytes]

    def behave(self, app: str, behaviour: str) -> None:
        """Tells an app how to behave from its next start on; see `toy_app`."""
        (self.run_dir / "behaviour").mkdir(exist_ok=True)
        (self.run_dir / "behaviour" / app).write_text(behaviour)

    def await_state(self, app: str, state: str) -> None:
        """Waits until the supervisor says so."""
        eventually(lambda: self.rpc.process(app).state == state, _START_S, f"{app} is {state}")

    def end(self) -> None:
        """Stops all apps and the supervisor."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_START_S)


def start_supervised(run_dir: Path) -> Supervised:
    """Starts supervisord; its apps are stopped."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_urlsafe(16)
    secret = {"url": f"http://127.0.0.1:{port}", "username": "toys", "password": password}
    (run_dir / "secrets").mkdir(parents=True)
    (run_dir / "secrets" / "supervisor.json").touch(0o600)
    (run_dir / "secrets" / "supervisor.json").write_text(json.dumps(secret))
    conf = run_dir / "supervisord.conf"
    conf.write_text(
        f"""
[inet_http_server]
port=127.0.0.1:{port}
username=toys
password={password}
[supervisord]
nodaemon=true
logfile={run_dir}/supervisord.log
pidfile={run_dir}/supervisord.pid
childlogdir={run_dir}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
        + "".join(_program(app, run_dir) for app in APPS)
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-c", str(conf)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=_PROJECT,
    )
    rpc = SupervisorRpc(**secret, timeout_s=10)
    supervised = Supervised(run_dir, rpc, password, process)

    def answers() -> bool:
        try:
            rpc.process(APPS[0])
        except SupervisorUnreachableError:
            assert process.poll() is None, (run_dir / "supervisord.log").read_text()
            return False
        return True

    eventually(answers, _START_S, "supervisord answers")
    return supervised


def environment(run_dir: Path, **more: str) -> dict[str, str]:
    """The environment of a process of this run directory, which is there, as on a platform."""
    run_dir.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "STOREKEEPER_RUN_DIR": str(run_dir), **more}  # noqa: TID251 (handed on to a child)


def _program(app: str, run_dir: Path) -> str:
    return f"""
[program:{app}]
command={sys.executable} -m tests.ops.control.toy_app {app} {run_dir} {" ".join(apps_of(app))}
directory={_PROJECT}
autostart=false
autorestart=unexpected
exitcodes=0,3,78
startsecs=0
stopsignal=TERM
stopwaitsecs=10
redirect_stderr=true
stdout_logfile={run_dir}/{app}.log
"""
