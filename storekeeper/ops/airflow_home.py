"""Airflow's home in the run directory: its configuration, passwords and database.

SQLite, LocalExecutor, one API worker, loopback only, and nothing that Airflow would otherwise generate and print.
"""

from __future__ import annotations

import asyncio
import base64
import configparser
import importlib.metadata
import io
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from storekeeper.apps.priority import JOB_NICENESS
from storekeeper.apps.settings import ProjectSettings
from storekeeper.ops.errors import StartError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.machine import check_not_full
from storekeeper.ops.programs import AIRFLOW_COMMAND
from storekeeper.ops.settings import PlatformSettings
from storekeeper.private_files import private_folder, read_secret
from storekeeper.whole_files import write_whole

_MIGRATE_TIMEOUT_S = 180
PATIENT = {"timeout": 30}
"""How a connection to Airflow's database waits for another one's write, in seconds: after SQLite's 5 s, a request on a
busy machine ends with "Database error"."""
_GENERATED = (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"))
_DAY_S = 86_400
KEPT_DAYS = 10
"""How long Airflow's runs and logs are kept: longer than any run of our DAGs lasts."""
_GROWING_TABLES = "dag_run,log,asset_event,callback"
"""The tables that grow with each run; rows that belong to a run go with it. Others have old rows that are in use."""
_CLEAN_TIMEOUT_S = 600
_CLEANED_AT_ONCE = 1000
"""Rows. The scheduler can't write meanwhile: under a second."""


def airflow_options(layout: RunLayout, settings: PlatformSettings) -> dict[str, dict[str, str]]:
    """Airflow's settings as sections, without the generated secrets. Everything else stays at Airflow's default."""
    logs = layout.logs / "airflow"
    return {
        "core": {
            "dags_folder": str(layout.dags),
            "load_examples": "False",
            "executor": "LocalExecutor",
            "parallelism": "4",  # processes of tasks, which start a job or look at its end
            "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "simple_auth_manager_users": f"{AIRFLOW_USER}:admin",
            "simple_auth_manager_passwords_file": str(layout.airflow_passwords),
            "execution_api_server_url": f"{settings.airflow_url}/execution/",
            "hostname_callable": "storekeeper.ops.airflow_home.loopback_host",
        },
        "database": {
            "sql_alchemy_conn": f"sqlite:///{layout.airflow / 'airflow.db'}",
            "sql_alchemy_connect_args": "storekeeper.ops.airflow_home.PATIENT",
            "sql_alchemy_connect_args_async": "storekeeper.ops.airflow_home.PATIENT",
        },
        "api": {
            "host": "127.0.0.1",
            "port": str(settings.airflow_port),
            "base_url": settings.airflow_url,
            "workers": "1",
        },
        "dag_processor": {
            "dag_bundle_config_list": json.dumps(_bundles(ProjectSettings().own_dags)),
            "refresh_interval": "30",
            "parsing_processes": "1",
            # A changed file is parsed at once. Parsing unchanged ones every 30 s takes a tenth of a processor.
            "min_file_process_interval": "300",
        },
        "scheduler": {
            "enable_health_check": "False",
            # Tasks left by a killed task or scheduler process are retried within a minute, not after five.
            "task_instance_heartbeat_timeout": "60",
            "orphaned_tasks_check_interval": "20",
        },
        # A quarter of all task processes are seen to have ended only after this time. A task that goes on before then
        # is failed: https://github.com/apache/airflow/issues/72716. One second is the least that Airflow takes.
        # On a busy machine the server answers late. A task whose first requests time out has failed without a log.
        "workers": {"min_heartbeat_interval": "1", "execution_api_timeout": "30"},
        "execution_api": {"jwt_expiration_time": "3600"},
        "logging": {
            "base_log_folder": str(logs),
            "dag_processor_child_process_log_directory": str(logs / "dag_processor"),
            "colored_console_log": "False",
            # Airflow sets these by itself, past the umask.
            "file_task_handler_new_folder_permissions": "0o700",
            "file_task_handler_new_file_permissions": "0o600",
        },
        "usage_data_collection": {"enabled": "False"},
    }


def _bundles(own: Path | None) -> list[dict[str, object]]:
    """Airflow's sources of DAG files: the folder of ours, and the project's own."""
    folders = [("dags-folder", {}), *([("project", {"path": str(own)})] if own is not None else [])]
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return [{"name": name, "classpath": local, "kwargs": kwargs} for name, kwargs in folders]


def loopback_host() -> str:
    """The host name of this machine for Airflow's components: it needs no name service."""
    return "127.0.0.1"


def prepare_airflow(layout: RunLayout, settings: PlatformSettings) -> str | None:
    """Writes the files of the embedded Airflow. Safe to repeat.

    Returns:
        The password of its admin if it was generated just now, to be shown once.

    Raises:
        ModuleNotFoundError: Airflow isn't installed.
    """
    if find_spec("airflow") is None:
        raise ModuleNotFoundError(name="airflow")
    write_airflow_config(layout, settings)
    from storekeeper.ops.dag_export import export_dags  # noqa: PLC0415 (it loads all apps)

    export_dags(layout.dags, settings.history_minutes)
    password, is_new = make_airflow_password(layout)
    return password if is_new else None


def write_airflow_config(layout: RunLayout, settings: PlatformSettings) -> None:
    """Writes `airflow.cfg` (0600). Secrets that an earlier one holds are kept, so that sessions survive a restart."""
    private_folder(layout.airflow)
    path = layout.airflow / "airflow.cfg"
    earlier = configparser.ConfigParser(interpolation=None)
    with suppress(FileNotFoundError):
        earlier.read_string(read_secret(path, "Airflow's configuration").decode())
    options = airflow_options(layout, settings)
    for section, key in _GENERATED:
        secret = earlier.get(section, key, fallback="") or _generated_secret()
        options.setdefault(section, {})[key] = secret
    config = configparser.ConfigParser(interpolation=None)
    config.read_dict({section: _escaped(keys) for section, keys in options.items()})
    text = io.StringIO()
    config.write(text)
    write_whole(path, text.getvalue().encode(), private=True)


def prepare_database(layout: RunLayout, environment: Mapping[str, str]) -> None:
    """Creates Airflow's database, or brings it to the installed version unless it has that. Safe to repeat.

    Raises:
        StartError: Airflow refused, and the message carries its last line; or it took too long.
    """
    marker, version = layout.airflow / "migrated-to", importlib.metadata.version("apache-airflow")
    if marker.exists() and marker.read_text("utf-8") == version and (layout.airflow / "airflow.db").exists():
        return
    try:
        done = subprocess.run(
            (*AIRFLOW_COMMAND, "db", "migrate"),
            env=dict(environment),
            cwd=layout.root,
            capture_output=True,
            text=True,
            timeout=_MIGRATE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"Airflow's database was not prepared within {_MIGRATE_TIMEOUT_S} s: run `storekeeper up` again."
        raise StartError(msg) from error
    if done.returncode != 0:
        check_not_full(layout.airflow)
        cause = _last_line(done.stderr, done.stdout)
        raise StartError(f"Airflow's database could not be prepared ({cause}): remove {layout.airflow} and try again.")
    marker.write_text(version, "utf-8")


def remove_old_logs(layout: RunLayout, now_ms: int) -> int:
    """Removes old logs of runs, and of each day on which DAG files were parsed. Returns how many folders."""
    logs = layout.logs / "airflow"
    folders = (*logs.glob("dag_id=*/run_id=*"), *logs.glob("dag_processor/????-??-??"))
    old = [path for path in folders if path.stat().st_mtime < _oldest_s(now_ms)]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return len(old)


async def remove_old_runs(layout: RunLayout, environment: Mapping[str, str], now_ms: int) -> str | None:
    """Removes old runs and events from Airflow's database, which Airflow may use meanwhile.

    Safe to repeat and to cancel. The newest scheduled run of each DAG is kept: the next one follows from it.

    Returns:
        Why some are still there, in Airflow's words; None if all were removed.

    Raises:
        TimeoutError: it took too long. The next call goes on.
    """
    process = await asyncio.create_subprocess_exec(
        *(*AIRFLOW_COMMAND, "db", "clean", "--tables", _GROWING_TABLES, "--skip-archive", "--yes"),
        *("--clean-before-timestamp", datetime.fromtimestamp(_oldest_s(now_ms), UTC).isoformat()),
        *("--batch-size", str(_CLEANED_AT_ONCE), "--error-on-cleanup-failure"),
        env=dict(environment),
        cwd=layout.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, JOB_NICENESS)
        async with asyncio.timeout(_CLEAN_TIMEOUT_S):
            _, output = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return None if process.returncode == 0 else _last_line(output.decode("utf-8", "replace"))


def _oldest_s(now_ms: int) -> float:
    return now_ms / 1000 - KEPT_DAYS * _DAY_S


def _last_line(*outputs: str) -> str:
    return next((output.strip().splitlines()[-1] for output in outputs if output.strip()), "no output")


def _generated_secret() -> str:
    # 32 bytes in URL-safe base64 is the form of a Fernet key, and long enough for the other two.
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _escaped(keys: Mapping[str, str]) -> dict[str, str]:
    # Airflow reads the file with interpolation.
    return {key: value.replace("%", "%%") for key, value in keys.items()}


AIRFLOW_USER = "admin"


def read_airflow_password(layout: RunLayout) -> str | None:
    """The password of Airflow's admin, or None before it was generated."""
    try:
        return str(json.loads(read_secret(layout.airflow_passwords, "Airflow's passwords"))[AIRFLOW_USER])
    except (OSError, ValueError, KeyError):
        return None


def make_airflow_password(layout: RunLayout) -> tuple[str, bool]:
    """The password of Airflow's admin and whether it was generated just now (and is to be shown, once)."""
    known = read_airflow_password(layout)
    if known is not None:
        return known, False
    password = secrets.token_urlsafe(12)
    write_whole(layout.airflow_passwords, f"{json.dumps({AIRFLOW_USER: password})}\n".encode(), private=True)
    return password, True
