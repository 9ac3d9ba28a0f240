"""Entries of the Delta tables in a schema of Unity Catalog, by its REST API. It needs no Spark.

An entry has a table's name, place, columns and comments, and is replaced when one of these differs. The API can't
change an entry. So it is dropped and made again: no file is touched, and rights that were granted on it are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import orjson

from storekeeper.apps.errors import CatalogueUnavailableError
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.client.credentials import Credentials
from storekeeper.clock import Clock
from storekeeper.engine.runtime.lease import job_lease, jobs_held
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.locations import Location
from storekeeper.schemas.sql_types import decimal_size
from storekeeper.snapshots.catalogue.entry import Entry, entries_of
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import open_table

_API = "/api/2.1/unity-catalog"
_ADDRESS = re.compile(r"https?://[^/?#@\s]+")
_IN_CLEAR_TEXT = re.compile(r"http://(?!(localhost|127(\.\d+){3}|\[::1\])(:\d+)?/?$)")
"""Addresses to which no token is sent: without TLS, and not on this machine."""
_SCHEMA = re.compile(r"([^./\s]+)\.([^./\s]+)")
_TYPE_NAMES = {"tinyint": "BYTE", "smallint": "SHORT", "bigint": "LONG"}
_PATIENCE_S = 30.0


def register_in_unity(
    settings: AppSettings,
    stores: Iterable[StoreSpec],
    server: str,
    schema: str | None,
    *,
    credentials: Credentials,
    clock: Clock,
) -> dict[str, Any]:
    """Enters the tables that are there: snapshots of stores, and published tables. Repeating it changes nothing.

    Args:
        settings: where the tables are.
        stores: all stores, each in the live generation of its app.
        server: the server's address, `http(s)://host:port`.
        schema: the schema of the entries, as `catalogue.schema`.
        credentials: the token, and the authorities that the server's certificate is checked by.
        clock: measures time-outs.

    Returns:
        The names, in `tables`, and those whose entries were new or were replaced, in `changed`.

    Raises:
        InvalidArgumentError: the address or schema is invalid, or a token would be sent unencrypted.
        ConfigurationError: the server refuses an entry or the token, or has another table of a name.
        CatalogueUnavailableError: the server doesn't answer.
        AppRunningError: the leftover JVM of a dead holder can't be ended.
        SnapshotDamagedError, TablesUnreachableError: a table can't be read now.
    """
    match = _SCHEMA.fullmatch(schema or "")
    if match is None:
        msg = f"{schema or ''!r} can't be a schema of Unity Catalog: name one with --schema catalogue.schema"
        raise InvalidArgumentError(msg)
    if _ADDRESS.fullmatch(server.rstrip("/")) is None:
        msg = f"{server[:200]!r} can't be the address of Unity Catalog: it is http(s)://host:port"
        raise InvalidArgumentError(msg)
    headers = credentials.headers()
    if headers and _IN_CLEAR_TEXT.match(server):
        msg = f"no token is sent to {server[:200]}, because everybody on the way could read it: use https"
        raise InvalidArgumentError(msg)
    entries = list(entries_of(stores, settings))
    with (
        jobs_held([job_lease("catalogue", "register")], settings, clock),
        httpx2.Client(
            base_url=server.rstrip("/") + _API,
            headers=headers,
            verify=credentials.ssl_context(),
            timeout=_PATIENCE_S,
        ) as http,
    ):
        unity = UnitySchema(http, *match.groups())
        changed = [entry.name for entry in entries if unity.register(entry)]
    return {"tables": [entry.name for entry in entries], "changed": changed}


class UnitySchema:
    """A schema of Unity Catalog: the catalogue's name, and its own."""

    def __init__(self, http: httpx2.Client, catalogue: str, name: str) -> None:
        self._http = http
        self._names = {"catalog_name": catalogue, "schema_name": name}

    def register(self, entry: Entry) -> bool:
        """Enters a table. Returns whether its entry is new or was replaced.

        Raises:
            ConfigurationError: the server refuses it, or has another table of that name.
            CatalogueUnavailableError: the server doesn't answer.
        """
        declared = {
            **self._names,
            "name": entry.name,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": _uri(entry.path),
            "comment": entry.meaning,
            "columns": list(_columns(entry)),
        }
        path = f"/tables/{'.'.join([*self._names.values(), entry.name])}"
        shown = self._ask("GET", path, missing_is_fine=True)
        if shown is not None:
            _check_same_place(shown, declared)
            if _shows(shown, declared):
                return False
            self._ask("DELETE", path, missing_is_fine=True)
        self._ask("POST", "/tables", declared)
        return True

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing_is_fine: bool = False
    ) -> dict[str, Any] | None:
        """The body of the answer to a GET, else None; None also for 404 if `missing_is_fine`."""
        try:
            answer = self._http.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise CatalogueUnavailableError(self._silent(type(error).__name__)) from error
        if answer.is_server_error:
            raise CatalogueUnavailableError(self._silent(_reason(answer)))
        if answer.is_success:
            return answer.json() if method == "GET" else None
        if missing_is_fine and answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        msg = (
            f"Unity Catalog at {self._http.base_url.host} refuses {method} {path} ({answer.status_code} "
            f"{_reason(answer)}): make the schema there, or correct the address, --schema or the token"
        )
        raise ConfigurationError(msg)

    def _silent(self, reason: str) -> str:
        return f"Unity Catalog at {self._http.base_url.host} does not answer ({reason}): repeat the command later"


def _columns(entry: Entry) -> Iterator[dict[str, Any]]:
    """The columns of the Delta log, as the API describes them."""
    table = open_table(entry.path)
    types, partitions = sql_types(table), table.metadata().partition_columns
    for position, field in enumerate(orjson.loads(table.schema().to_json())["fields"]):
        name, kind = field["name"], types[field["name"]]
        size = decimal_size(kind)
        comment = entry.columns.get(name) or field["metadata"].get("comment")
        column = {
            "name": name,
            "type_text": kind,
            "type_name": "DECIMAL" if size else _TYPE_NAMES.get(kind, kind.upper()),
            "type_json": orjson.dumps({**field, "metadata": {"comment": comment} if comment else {}}).decode(),
            "position": position,
            "nullable": field["nullable"],
            "comment": comment,
        }
        if size:
            column |= {"type_precision": size[0], "type_scale": size[1]}
        if name in partitions:
            column["partition_index"] = partitions.index(name)
        yield column


def _check_same_place(entry: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    place = str(entry.get("storage_location") or "nowhere").rstrip("/")
    if place != declared["storage_location"]:
        msg = (
            f"Unity Catalog has a table {declared['name']} at {place}, and ours is at {declared['storage_location']}: "
            "drop that entry, or choose another schema with --schema"
        )
        raise ConfigurationError(msg)


def _shows(entry: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether an entry has the columns and comments that it should have."""
    columns: Sequence[Mapping[str, Any]] = sorted(entry.get("columns") or (), key=lambda column: column["position"])
    return (
        entry.get("comment") == declared["comment"]
        and len(columns) == len(declared["columns"])
        and all(
            column.get(key) == value
            for column, ours in zip(columns, declared["columns"], strict=True)
            for key, value in ours.items()
            if key != "type_json"  # a server may write it in its own way
        )
    )


def _uri(path: Location) -> str:
    return path.absolute().as_uri() if isinstance(path, Path) else re.sub("^s3a:", "s3:", path.uri)


def _reason(answer: httpx2.Response) -> str:
    """What an answer says is wrong, cut short."""
    try:
        return str(answer.json()["message"])[:200]
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
