"""What an app is, as data: its topics and its stores. Whoever starts, watches or snapshots apps needs only this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spark_apps.settings import AppSettings
from state.names import changelog_topic, checked_name


@dataclass(frozen=True, slots=True)
class ValueField:
    """A field of a store's JSON value, and the column that it becomes in the store's snapshots.

    `sql_type` is a Spark SQL type. A field of type `timestamp` holds epoch milliseconds.
    """

    name: str
    sql_type: str


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store that an app keeps: one changelog topic, one table of snapshots."""

    name: str
    app: str
    value_fields: tuple[ValueField, ...]
    schema_version: int = 1

    def __post_init__(self) -> None:
        checked_name(self.name)

    @property
    def changelog_topic(self) -> str:
        """The compacted topic that all changes of the store go to."""
        return changelog_topic(self.app, self.name)


@dataclass(frozen=True, slots=True)
class AppSpec:
    """A streaming app.

    `sources`, `sinks` and `dead_letters` name topics; they take the settings, which may rename them. `module` has the
    function `open_stream` and is imported only by the process that runs the app.
    """

    name: str
    title: str
    module: str
    sources: Callable[[AppSettings], tuple[str, ...]]
    sinks: Callable[[AppSettings], tuple[str, ...]]
    dead_letters: Callable[[AppSettings], tuple[str, ...]] = lambda _: ()
    stores: tuple[StoreSpec, ...] = field(default=())

    def __post_init__(self) -> None:
        checked_name(self.name)

    def topics(self, settings: AppSettings) -> tuple[str, ...]:
        """Every topic that must exist before the app starts."""
        changelogs = tuple(store.changelog_topic for store in self.stores)
        return self.sources(settings) + self.sinks(settings) + self.dead_letters(settings) + changelogs
