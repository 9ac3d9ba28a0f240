"""The online store of Feast whose rows are in Storekeeper's stores. Streams write them; Feast only reads.

In `feature_store.yaml`, `online_store.type` is `storekeeper_feast.online_store.StorekeeperOnlineStore`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from feast import Entity, FeatureView, RepoConfig
from feast.infra.key_encoding_utils import EntityKeyProto
from feast.infra.online_stores.online_store import OnlineStore
from feast.protos.feast.types.Value_pb2 import Value
from feast.repo_config import FeastConfigBaseModel

from storekeeper.client.client import StateClient
from storekeeper.client.credentials import Credentials
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.queries import Key, ReadOptions
from storekeeper.errors import InvalidArgumentError, UnknownStoreError
from storekeeper_feast.view import ServedView, check_entities, row_key

_KEYS_AT_ONCE = 1000
_BY_KEY = {"keyvalue", "ranked", "global"}


class StorekeeperOnlineStoreConfig(FeastConfigBaseModel):
    """What `online_store` in `feature_store.yaml` may hold. Paths are relative to the folder of that file.

    Attributes:
        type: names the store's class.
        addresses: of some query nodes.
        stores: the store by feature view, for those that are not named alike.
        max_staleness_ms: a feature includes all that was in the changelog that long before; None demands nothing.
        timeout_s: the time limit of a query, over all attempts.
        token_file, ca_file, certificate_file, key_file: as `Credentials` has them.
    """

    type: Literal["storekeeper_feast.online_store.StorekeeperOnlineStore"] = (
        "storekeeper_feast.online_store.StorekeeperOnlineStore"
    )
    addresses: list[str]
    stores: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    max_staleness_ms: int | None = None
    timeout_s: float = ClientLimits().timeout_s
    token_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


class StorekeeperOnlineStore(OnlineStore):
    """Reads features from key-value, ranked and global stores. Thread-safe. Raises the errors of `StateClient`.

    A row that a store doesn't have is a feature that is not found. While no node can say whether it has it, there is
    an error instead: a feature is never missing because a store restores.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: StateClient | None = None

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKeyProto],
        requested_features: list[str] | None = None,
    ) -> list[tuple[datetime | None, dict[str, Value] | None]]:
        """The rows of entities, in their order: the time of the event, and the features that the row has.

        Raises:
            InvalidArgumentError: the view doesn't fit a store.
            SerializationError: a value isn't of the types that the view declares.
        """
        view = _served(table, config.online_store)
        keys = [_key_of(view, entity) for entity in entity_keys]
        rows = self._rows(config, view.store, keys)
        features = list(view.kinds) if requested_features is None else requested_features
        return [_with_values(view.row(rows.get(key), features)) for key in keys]

    def online_write_batch(
        self,
        config: RepoConfig,
        table: FeatureView,
        data: list[tuple[EntityKeyProto, dict[str, Value], datetime, datetime | None]],
        progress: Callable[[int], Any] | None,
    ) -> None:
        """Refuses: only an app's tasks write to its stores.

        Raises:
            InvalidArgumentError: always.
        """
        msg = (
            f"feature view {table.name} can't be written through Feast: the streaming app that owns store "
            f"{_served(table, config.online_store).store} writes it. Neither push nor materialize this view"
        )
        raise InvalidArgumentError(msg)

    def update(  # noqa: PLR0917 (Feast passes them)
        self,
        config: RepoConfig,
        tables_to_delete: Sequence[FeatureView],
        tables_to_keep: Sequence[FeatureView],
        entities_to_delete: Sequence[Entity],
        entities_to_keep: Sequence[Entity],
        partial: bool,
    ) -> None:
        """Checks that the views to keep fit stores that are there. Makes nothing and deletes nothing.

        Raises:
            UnknownStoreError: the nodes have no such store.
            InvalidArgumentError: a view doesn't fit its store.
        """
        if not tables_to_keep:
            return
        kinds = {str(store["store"]): str(store["kind"]) for store in self._client_of(config).stores()}
        for table in tables_to_keep:
            view = _served(table, config.online_store)
            check_entities(view.name, table.entities)
            view.check_types()
            _check_store(view, kinds)

    def teardown(self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]) -> None:
        """Deletes nothing: the stores belong to their apps."""

    async def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _rows(self, config: RepoConfig, store: str, keys: Sequence[Key]) -> dict[Key, Any]:
        client, options = self._client_of(config), ReadOptions()
        if config.online_store.max_staleness_ms is not None:
            options["max_staleness_ms"] = config.online_store.max_staleness_ms
        asked = [key for key in dict.fromkeys(keys) if key]  # no row has an empty key
        rows: dict[Key, Any] = {}
        for start in range(0, len(asked), _KEYS_AT_ONCE):
            rows |= client.key_value(store).get_many(asked[start : start + _KEYS_AT_ONCE], **options).value
        return rows

    def _client_of(self, config: RepoConfig) -> StateClient:
        with self._lock:
            if self._client is None:
                self._client = _client(config)
            return self._client


def _client(config: RepoConfig) -> StateClient:
    given = config.online_store
    folder = Path(config.repo_path or ".")
    names = ("token_file", "ca_file", "certificate_file", "key_file")
    files = {name: folder / path for name in names if (path := getattr(given, name)) is not None}
    return StateClient(
        given.addresses, credentials=Credentials(**files), limits=ClientLimits(timeout_s=given.timeout_s)
    )


def _served(table: FeatureView, given: StorekeeperOnlineStoreConfig) -> ServedView:
    source = getattr(table, "batch_source", None)
    mapped = dict(getattr(source, "field_mapping", None) or {})
    return ServedView(
        name=table.name,
        store=given.stores.get(table.name, table.name),
        kinds={field.name: field.dtype.to_value_type().name for field in table.features},
        fields={feature: field for field, feature in mapped.items()},
        event_time=getattr(source, "timestamp_field", None) or "",
    )


def _key_of(view: ServedView, entity: EntityKeyProto) -> Key:
    check_entities(view.name, entity.join_keys)
    (value,) = entity.entity_values
    kind = value.WhichOneof("val")
    return row_key(entity.join_keys[0], kind, None if kind is None else getattr(value, kind))


def _with_values(
    row: tuple[datetime | None, dict[str, dict[str, Any]] | None],
) -> tuple[datetime | None, dict[str, Value] | None]:
    at, features = row
    return at, None if features is None else {name: Value(**given) for name, given in features.items()}


def _check_store(view: ServedView, kinds: dict[str, str]) -> None:
    if view.store not in kinds:
        msg = (
            f"feature view {view.name} has no store {view.store}: the nodes have {', '.join(sorted(kinds)) or 'none'}. "
            "Name the view's store under online_store.stores in feature_store.yaml, or start the app that has it"
        )
        raise UnknownStoreError(msg)
    if kinds[view.store] not in _BY_KEY:
        msg = (
            f"feature view {view.name} can't be read from {view.store}, a {kinds[view.store]} store, where a key has "
            "several rows: name a key-value, ranked or global store"
        )
        raise InvalidArgumentError(msg)
