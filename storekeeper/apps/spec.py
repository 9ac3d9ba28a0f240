"""The description of an app, as data: topics, stores, tables. It suffices to start, watch and check an app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from storekeeper.apps.checked_table import CheckedTable, WithTopic
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError
from storekeeper.names import changelog_topic, checked_name, dead_letter_topic
from storekeeper.serdes.value_field import ValueField
from storekeeper.stores.store_definitions import ServedKind, StoreDefinition
from storekeeper.topology.builder import StreamsBuilder
from storekeeper.topology.failures import OnError

PLACE = {"_partition": "int", "_offset": "bigint"}
"""The last columns of such a table, and their types: the place of the row's record in its topic."""

TableRow = Callable[[bytes | None, bytes | None, AppSettings], Sequence[object]]
"""The row of a record with this key and value: the values of the table's columns but `PLACE`, in their order.

It raises a `SerializationError`, such as `PoisonRecordError`, for a record that becomes a dead letter. So does a record
that it fails on otherwise, and one whose row doesn't fit the columns. A function of a module, so that workers find it
by its name.
"""


@dataclass(frozen=True, slots=True)
class TableSink:
    """A topic whose records become the rows of a table, each exactly once.

    Attributes:
        topic: the topic.
        table: the table, which the quality gate publishes. Its last columns are `_partition int` and `_offset bigint`.
        row: makes the row of a record.

    Raises:
        ConfigurationError: the table's last columns are others.
    """

    topic: str
    table: CheckedTable
    row: TableRow

    def __post_init__(self) -> None:
        last = {column.name: column.sql_type for column in self.table.columns[-len(PLACE) :]}
        if last != PLACE:
            place = ", ".join(f"{name} {kind}" for name, kind in PLACE.items())
            msg = f"the last columns of table {self.table.name} are not {place}: they hold the place in {self.topic}"
            raise ConfigurationError(msg)


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store that an app keeps: one changelog topic, one table of snapshots.

    Attributes:
        name: the store's name.
        app: the app that keeps it.
        value_fields: the fields of its values, by their struct or schema.
        schema_version: the version of its values' schema.
        kind: the kind of its keys, which decides the queries that a node answers.
        score_field: the field that a ranked store is ranked by; None for every other kind.
        topic: its changelog topic, where that isn't named after app and store.
        by_schema: whether its values are by schemas of a registry, and not JSON.
        bounded: whether its app itself limits the number of its rows, so that no clean-up may delete any.
    """

    name: str
    app: str
    value_fields: tuple[ValueField, ...]
    schema_version: int = 1
    kind: ServedKind = ServedKind.KEY_VALUE
    score_field: str | None = None
    topic: str | None = None
    bounded: bool = False
    by_schema: bool = False

    def __post_init__(self) -> None:
        _ = self.definition  # refuses names and kinds that a node would refuse

    @property
    def fields(self) -> dict[str, str]:
        """The SQL type of each field of its values, by name."""
        return {item.name: item.sql_type for item in self.value_fields}

    @property
    def changelog_topic(self) -> str:
        """The compacted topic that all changes of the store go to."""
        return self.topic or changelog_topic(self.app, self.name)

    @property
    def table_name(self) -> str:
        """The Delta table of its snapshots, the same for all generations of the app."""
        return self.name

    @property
    def history_name(self) -> str:
        """The Delta table of all its changes."""
        return f"{self.table_name}_history"

    @property
    def definition(self) -> StoreDefinition:
        """The store as a node serves it; as text, a part of `STOREKEEPER_STORES`."""
        return StoreDefinition(self.name, self.changelog_topic, self.kind, self.score_field, self.by_schema)


@dataclass(frozen=True, slots=True)
class Resources:
    """Where an app differs from the settings' defaults; None keeps the default.

    Each field is the setting of its name.
    """

    trigger_interval_ms: int | None = None
    max_offsets_per_trigger: int | None = None


@dataclass(frozen=True, slots=True)
class AppSpec:
    """A streaming app.

    `sources` and `sinks` name topics; they take the settings, which may rename them. `dead_letters` says whether it
    writes records that it can't process to a topic of its own. `describe` describes the app's topology: see
    `topology_app`. An app without one has a `table_sink`: see `table_app`. `resources` are its own, instead of the
    settings.
    `migrations` is `<module>:<variable>` of a tuple of the `StoreMigration`s that its stores can undergo: so plans and
    steps find them by name. `tables` says what the rows of its tables, and of its stores' snapshots, must be.
    `why_no_generations` says why its state can't be changed by a new generation; None if it
    can. `on_error` says what becomes of a record that an operator of its topology can't process.

    Where it keeps its progress follows from its name and the settings: `AppSettings.checkpoint_dir`.
    """

    name: str
    title: str
    sources: Callable[[AppSettings], tuple[str, ...]]
    sinks: Callable[[AppSettings], tuple[str, ...]]
    dead_letters: bool = False
    stores: tuple[StoreSpec, ...] = field(default=())
    describe: Callable[[StreamsBuilder, AppSettings], None] | None = None
    table_sink: TableSink | None = None
    migrations: str | None = None
    tables: tuple[CheckedTable, ...] = ()
    resources: Resources = field(default_factory=Resources)
    why_no_generations: str | None = "it is not a topology"
    on_error: OnError = OnError.DEAD_LETTER

    def __post_init__(self) -> None:
        checked_name(self.name)
        _check_tables(self)

    @property
    def gated_tables(self) -> tuple[CheckedTable, ...]:
        """The tables that the quality gate publishes: those that aren't about one of the app's stores."""
        stores = {store.name for store in self.stores}
        return tuple(table for table in self.tables if table.name not in stores)

    @property
    def dead_letter_topics(self) -> tuple[str, ...]:
        """The topic of records that it can't process; none if it writes no dead letters."""
        return (dead_letter_topic(self.name),) if self.dead_letters else ()

    @property
    def has_generations(self) -> bool:
        """Whether its state can be changed by a new generation."""
        return self.why_no_generations is None

    def settings(self, settings: AppSettings) -> AppSettings:
        """The settings that this app runs with: the given ones, with its own resources instead of defaults.

        Explicit settings, such as the environment's, take precedence.
        """
        own = {name: value for name, value in asdict(self.resources).items() if value is not None}
        return settings.model_copy(
            update={name: value for name, value in own.items() if name not in settings.model_fields_set}
        )

    def topics(self, settings: AppSettings) -> tuple[str, ...]:
        """Every topic that must exist before the app starts."""
        changelogs = tuple(store.changelog_topic for store in self.stores)
        named = self.sources(settings) + self.sinks(settings) + self.dead_letter_topics + changelogs
        return tuple(dict.fromkeys(named))  # an app may read what it writes


def _check_tables(app: AppSpec) -> None:
    """Checks that an app declares each table once, and what it says about a store's snapshots fits the store.

    Raises:
        ConfigurationError: it doesn't. The message names the table, and the column if it is about one.
    """
    names = [table.name for table in app.tables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"app {app.name} declares table {twice} more than once: declare it once")
    stores = {store.name: store for store in app.stores}
    for table in app.tables:
        mistake = misfit(stores[table.name], table) if table.name in stores else None
        if mistake is not None:
            raise ConfigurationError(f"the declaration of table {table.name} doesn't fit store {table.name}: {mistake}")
        if table.name not in stores and not table.published_columns:
            raise ConfigurationError(f"the declaration of table {table.name} is wrong: no column is published")


def misfit(store: StoreSpec, table: CheckedTable) -> str | None:
    """Why a declaration doesn't fit the snapshots of a store; None if it does."""
    types = {item.name: item.sql_type for item in store.value_fields}
    for column in table.columns:
        if column.name not in types:
            return f"it has no field {column.name}; its fields are {', '.join(types) or 'none'}"
        if column.sql_type != types[column.name]:
            return f"column {column.name} is declared as {column.sql_type}, and the field is {types[column.name]}"
    if table.partition_by or any(isinstance(each, WithTopic) for each in table.reconcile):
        return "snapshots are checked where they are: it has neither partition_by nor WithTopic"
    return None
