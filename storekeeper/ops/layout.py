"""The paths of a run directory. Everything that the platform writes lives under it; nothing else is touched.

kafka/         the broker's configuration and logs of records
airflow/       Airflow's home: airflow.cfg, database, DAG files and the names for their forms
checkpoints/   Spark's, one folder per app and generation: which records each batch read
delta/         Delta tables
state/         the query nodes' local stores
tasks/         the local stores of the apps' tasks
logs/          one rotated log per process
supervisor/    supervisord.conf, its pid file and log
heartbeats/    one JSON file per app
stopped/       an empty file per process that a person has stopped
leases/        one lock per app
jobs/          a folder for each job of the control API
quality/       verdicts and data docs
secrets/       generated passwords
settings.toml  the settings that the platform was started with

`RunLayout` names the paths that the platform itself uses; apps and nodes name theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storekeeper.private_files import private_folder
from storekeeper.run_dir import LOCK, STARTED_WITH


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Where things are under one run directory `root` (absolute)."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by `up` and `down`: one of them at a time."""
        return self.root / LOCK

    @property
    def kafka(self) -> Path:
        """The broker's folder."""
        return self.root / "kafka"

    @property
    def airflow(self) -> Path:
        """Airflow's home."""
        return self.root / "airflow"

    @property
    def dags(self) -> Path:
        """The DAG files of the platform's own Airflow, and the names for their forms."""
        return self.airflow / "dags"

    @property
    def delta(self) -> Path:
        """The root of the Delta tables."""
        return self.root / "delta"

    @property
    def logs(self) -> Path:
        """The processes' logs."""
        return self.root / "logs"

    @property
    def supervisor(self) -> Path:
        """The supervisor's configuration, pid file and own log."""
        return self.root / "supervisor"

    @property
    def supervisor_conf(self) -> Path:
        """The generated supervisor configuration (holds its password: 0600)."""
        return self.supervisor / "supervisord.conf"

    def start_record(self, program: str) -> Path:
        """JSON with the time, the command and the settings of a process's last start."""
        return self.supervisor / f"{program}.start.json"

    @property
    def started_with(self) -> Path:
        """The settings that the platform was started with."""
        return self.root / STARTED_WITH

    @property
    def secrets(self) -> Path:
        """Generated passwords; nobody else may enter it."""
        return self.root / "secrets"

    @property
    def supervisor_secret(self) -> Path:
        """JSON `{"url","username","password"}` of the supervisor's XML-RPC."""
        return self.secrets / "supervisor.json"

    @property
    def stopped(self) -> Path:
        """An empty file for each process that a person has stopped."""
        return self.root / "stopped"

    @property
    def jobs(self) -> Path:
        """The jobs of the control API."""
        return self.root / "jobs"

    @property
    def control_token(self) -> Path:
        """The token of this run directory for its control API."""
        return self.secrets / "control.token"

    @property
    def tokens(self) -> Path:
        """The tokens of `storekeeper token add` where no file of tokens is configured."""
        return self.secrets / "tokens"

    @property
    def airflow_passwords(self) -> Path:
        """JSON `{"<user>": "<password>"}`, the file that Airflow's SimpleAuthManager reads."""
        return self.secrets / "airflow-passwords.json"

    def heartbeat(self, app: str) -> Path:
        """The heartbeat file of a Spark app."""
        return self.root / "heartbeats" / f"{app}.json"

    def log(self, program: str) -> Path:
        """The current log file of a supervised process."""
        return self.logs / f"{program}.log"

    def make(self) -> None:
        """Makes the folders that the platform itself writes to. Safe to repeat."""
        for folder in (self.kafka, self.delta, self.logs, self.supervisor, self.secrets):
            private_folder(folder)
