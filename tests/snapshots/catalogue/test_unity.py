"""Entries in Unity Catalog: made, left alone, written anew, refused. `test_unity_catalog.py` asks the real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from harness.app_process import AppProcesses
from storekeeper.apps.errors import CatalogueUnavailableError
from storekeeper.apps.settings import AppSettings
from storekeeper.client.credentials import Credentials
from storekeeper.clock import ManualClock
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.locations import RemoteFolder
from storekeeper.program import ExitCode
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.catalogue.unity import UnitySchema, register_in_unity

FULL_NAME = "shop.tables.line_items"


@dataclass
class Server:
    """What the API does with tables: an entry is made once, shown and dropped, and can't be changed."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refusal: httpx2.Response | None = None

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.method)
        if self.refusal is not None:
            return self.refusal
        if request.method == "POST":
            body = orjson.loads(request.content)
            name = ".".join(body[part] for part in ("catalog_name", "schema_name", "name"))
            if name in self.tables:
                return httpx2.Response(400, json={"message": f"Table already exists: {name}"})
            # The real one shows more, in an order of its own.
            self.tables[name] = {**body, "owner": None, "columns": body["columns"][::-1]}
            return httpx2.Response(200, json=self.tables[name])
        name = request.url.path.rpartition("/")[2]
        if name not in self.tables:
            return httpx2.Response(404, json={"message": f"Table not found: {name}"})
        return httpx2.Response(200, json=self.tables.pop(name) if request.method == "DELETE" else self.tables[name])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def schema(server: Server) -> Iterator[UnitySchema]:
    with httpx2.Client(base_url="http://unity:8080/api", transport=httpx2.MockTransport(server.answer)) as http:
        yield UnitySchema(http, "shop", "tables")


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    """That of a table with a column of each kind."""
    day = date(2026, 11, 26)
    rows = pa.table({"Item": ["ale"], "Total": [Decimal("1.5000")], "Count": [2], "day": [day]})
    rows = rows.set_column(1, "Total", rows["Total"].cast(pa.decimal128(18, 4)))
    path = tmp_path / "line items"
    write_deltalake(path, rows, partition_by=["day"])
    return Entry("line-items", path, "Sold line items.", {"Item": "Its name.", "Gone": "Not there."}, "a-lease")


def test_an_entry_has_place_columns_and_comments_of_the_table(
    server: Server, schema: UnitySchema, entry: Entry
) -> None:
    assert schema.register(entry) is True
    made = server.tables[FULL_NAME]
    assert made["storage_location"] == entry.path.as_uri()  # type: ignore[union-attr]
    assert (made["table_type"], made["data_source_format"], made["comment"]) == (
        "EXTERNAL",
        "DELTA",
        "Sold line items.",
    )
    item, total, count, day = made["columns"][::-1]
    assert (item["type_name"], item["type_text"], item["comment"]) == ("STRING", "string", "Its name.")
    assert orjson.loads(item["type_json"])["metadata"] == {"comment": "Its name."}
    assert (total["type_name"], total["type_text"]) == ("DECIMAL", "decimal(18,4)")
    assert (total["type_precision"], total["type_scale"], total["comment"]) == (18, 4, None)
    assert (count["type_name"], count["type_text"]) == ("LONG", "bigint")
    assert orjson.loads(count["type_json"])["type"] == "long"
    assert (day["type_name"], day["position"], day["partition_index"]) == ("DATE", 3, 0)


def test_an_entry_that_is_right_is_left_alone_and_another_is_written_anew(
    server: Server, schema: UnitySchema, entry: Entry
) -> None:
    assert [schema.register(entry), schema.register(entry)] == [True, False]
    assert server.asked == ["GET", "POST", "GET"]

    renamed = replace(entry, meaning="All sold line items.")
    assert [schema.register(renamed), schema.register(renamed)] == [True, False]
    assert server.tables[FULL_NAME]["comment"] == "All sold line items."
    described = replace(renamed, columns={"Item": "The item's name."})
    assert [schema.register(described), schema.register(described)] == [True, False]
    write_deltalake(str(entry.path), pa.table({"More": ["x"], "day": [date(2026, 11, 27)]}), mode="append",
                    schema_mode="merge")  # fmt: skip
    assert [schema.register(described), schema.register(described)] == [True, False]
    assert len(server.tables[FULL_NAME]["columns"]) == 5


def test_the_table_of_somebody_else_is_refused_and_stays(server: Server, schema: UnitySchema, entry: Entry) -> None:
    theirs = {"storage_location": "s3://lake/theirs", "comment": "Theirs.", "columns": []}
    server.tables[FULL_NAME] = dict(theirs)
    with pytest.raises(ConfigurationError, match="has a table line_items at s3://lake/theirs"):
        schema.register(entry)
    assert server.tables == {FULL_NAME: theirs}


def test_a_store_has_the_address_that_unity_catalog_knows(
    server: Server, schema: UnitySchema, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storekeeper.snapshots.catalogue.unity._columns", lambda _: iter(()))
    schema.register(replace(entry, path=RemoteFolder("s3a://lake/line-items")))
    assert server.tables[FULL_NAME]["storage_location"] == "s3://lake/line-items"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, ConfigurationError), (403, ConfigurationError), (400, ConfigurationError), (503, CatalogueUnavailableError)],
)
def test_a_refusal_says_what_the_server_says(
    server: Server, schema: UnitySchema, entry: Entry, status: int, kind: type[Exception]
) -> None:
    server.refusal = httpx2.Response(status, json={"message": "Not today"})
    with pytest.raises(kind, match=r"at unity .*Not today"):
        schema.register(entry)


def test_a_schema_that_is_not_there_is_refused(server: Server, schema: UnitySchema, entry: Entry) -> None:
    server.refusal = httpx2.Response(404, json={"message": "Schema not found: shop.tables"})
    with pytest.raises(ConfigurationError, match=r"404 Schema not found: shop.tables.*make the schema there"):
        schema.register(entry)


@pytest.mark.parametrize("schema", [None, "", "shop", "shop.", "a.b.c", "a.b/c"])
def test_what_is_no_schema_is_refused_before_anything_is_asked(tmp_path: Path, schema: str | None) -> None:
    with pytest.raises(InvalidArgumentError, match="can't be a schema of Unity Catalog"):
        register_in_unity(
            AppSettings(run_dir=tmp_path), (), "http://unity", schema, credentials=Credentials(), clock=ManualClock()
        )


@pytest.mark.parametrize("server", ["", "unity:8080", "ftp://unity", "http://me:secret@unity", "http://unity/api"])
def test_what_is_no_address_is_refused_before_anything_is_asked(tmp_path: Path, server: str) -> None:
    with pytest.raises(InvalidArgumentError, match="can't be the address of Unity Catalog"):
        register_in_unity(
            AppSettings(run_dir=tmp_path), (), server, "shop.tables", credentials=Credentials(), clock=ManualClock()
        )


@pytest.mark.parametrize(
    "server", ["http://unity:8080", "http://127.0.0.1.example.com", "http://localhost.example.com"]
)
def test_no_token_goes_out_in_clear_text(tmp_path: Path, server: str) -> None:
    with pytest.raises(InvalidArgumentError, match="use https"):
        register_in_unity(
            AppSettings(run_dir=tmp_path),
            (),
            server,
            "shop.tables",
            credentials=Credentials("secret"),
            clock=ManualClock(),
        )


@pytest.mark.parametrize("server", ["http://127.0.0.1:9", "http://localhost:9/", "http://[::1]:9", "https://unity"])
def test_a_token_goes_to_this_machine_and_by_tls(tmp_path: Path, server: str) -> None:
    assert register_in_unity(
        AppSettings(run_dir=tmp_path), (), server, "a.b", credentials=Credentials("secret"), clock=ManualClock()
    ) == {
        "tables": [],
        "changed": [],
    }


def test_the_command_ends_with_75_while_nobody_answers(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "delta" / "rewards", pa.table({"Item": ["ale"]}))
    apps = AppProcesses(tmp_path, "127.0.0.1:9", patience_s=900)
    done = apps.run("tables", "--register", "--unity", "http://127.0.0.1:9", "--schema", "shop.tables")
    assert done.returncode == ExitCode.TRY_AGAIN, done.stderr[-3000:]
    assert "Unity Catalog at 127.0.0.1 does not answer" in done.stderr
    assert "Traceback" not in done.stderr
