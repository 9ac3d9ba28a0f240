"""Generates what the compose file mounts: secrets, certificates, and the folders that containers write to.

Nothing in the folder has a default value, and existing files are not overwritten: it is safe to repeat.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import Caller, Role, TokenRecord, new_token, token_digest, write_tokens
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.ops.airflow_home import AIRFLOW_USER
from storekeeper.ops.containers.authority import Authority, authority_pems, issue, new_authority, read_authority
from storekeeper.private_files import private_folder, read_secret
from storekeeper.whole_files import write_whole

NODES = ("node-a", "node-b", "node-c")
"""The query nodes of the compose file, by their host names."""
STREAM_APPS = "stream-apps"
"""The container of the apps and the control API, by its host name."""
SERVERS = (*NODES, STREAM_APPS)
"""The hosts that have a certificate."""
FOLDERS = ("run", "run/secrets", "run/delta", "prometheus", "grafana")


def prepare_containers(folder: Path) -> list[Path]:
    """Makes what is missing in `folder` and returns the new files. Files are 0600, folders 0700.

    `folder/.env` holds what compose itself reads (user and group that containers run as): no secret.
    """
    files = _Made(folder)
    for name in ("", "secrets", *FOLDERS):
        private_folder(folder / name)
    _passwords(files)
    _certificates(files)
    _tokens(files)
    if not (folder / "secrets/cluster.key").exists():
        load_cluster_secret(folder / "secrets/cluster.key")
        files.files.append(folder / "secrets/cluster.key")
    files.text(".env", lambda: f"STOREKEEPER_UID={os.getuid()}\nSTOREKEEPER_GID={os.getgid()}\n")
    return files.files


class _Made:
    """Writes files that don't exist yet, and remembers them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []

    def text(self, name: str, content: Callable[[], str]) -> str:
        """The text of a file, generated if there is none."""
        path = self.folder / name
        if not path.exists():
            self.write(name, content().encode())
        return read_secret(path, "the secret").decode()

    def write(self, name: str, content: bytes) -> None:
        """Writes a file."""
        write_whole(self.folder / name, content, private=True)
        self.files.append(self.folder / name)


def _passwords(files: _Made) -> None:
    database = files.text("secrets/postgres-password", lambda: secrets.token_urlsafe(24))
    url = f"postgresql+psycopg2://airflow:{database}@postgres/airflow"
    files.text("secrets/airflow-database", lambda: url)
    files.text("secrets/grafana-password", lambda: secrets.token_urlsafe(24))
    files.text("secrets/redis.conf", lambda: f'requirepass {secrets.token_urlsafe(24)}\nsave ""\n')
    for name in ("airflow-fernet-key", "airflow-api-secret", "airflow-jwt-secret"):
        # 32 bytes in URL-safe base64 is the form of a Fernet key, and long enough for the other two.
        files.text(f"secrets/{name}", lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    passwords = {AIRFLOW_USER: secrets.token_urlsafe(12)}
    files.text("run/secrets/airflow-passwords.json", lambda: json.dumps(passwords) + "\n")


def _certificates(files: _Made) -> None:
    folder = files.folder / "secrets"
    missing = [host for host in SERVERS if not _is_pair(folder, host)]
    if not missing:
        return
    now = dt.datetime.now(dt.UTC)
    authority = _authority(files, now)
    for host in missing:
        for name, pem in zip(_pair(host), issue(authority, host, [host, "localhost", "127.0.0.1"], now), strict=True):
            files.write(f"secrets/{name}", pem)


def _authority(made: _Made, now: dt.datetime) -> Authority:
    """The existing authority, so that its clients trust new certificates, too; a new one if there is none."""
    folder = made.folder / "secrets"
    files = [folder / name for name in _pair("ca")]
    if not any(file.exists() for file in files) and not any(folder.glob("*.pem")):
        authority = new_authority("storekeeper", now)
        for name, pem in zip(_pair("ca"), authority_pems(authority), strict=True):
            made.write(f"secrets/{name}", pem)
        return authority
    try:
        return read_authority(*(read_secret(file, "the authority's file") for file in files))
    except (OSError, ValueError) as error:
        msg = (
            f"certificates are missing in {folder}, and the authority can't sign any ({type(error).__name__} of ca.pem "
            "or ca.key): put both back, or remove all *.pem and *.key there but cluster.key to have new ones made"
        )
        raise ConfigurationError(msg) from error


def _pair(name: str) -> tuple[str, str]:
    return f"{name}.pem", f"{name}.key"


def _is_pair(folder: Path, name: str) -> bool:
    return all((folder / file).exists() for file in _pair(name))


def _tokens(files: _Made) -> None:
    path = files.folder / "secrets/tokens"
    if path.exists():
        return
    tokens = {
        "reader": (Role.READER, new_token()),
        "prometheus": (Role.MONITOR, new_token()),
        "airflow": (Role.OPERATOR, new_token()),
    }
    records = [
        TokenRecord(Caller(name, frozenset({role})), token_digest(token.encode()))
        for name, (role, token) in tokens.items()
    ]
    for name, (_, token) in tokens.items():
        files.write(f"secrets/{name}-token", token.encode())
    write_tokens(path, records)
    files.files.append(path)
