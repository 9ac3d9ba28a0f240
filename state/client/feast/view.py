"""A feature view and the store that holds its rows: which field is which feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.client.feast.values import content, is_served, moment, served_kinds
from state.errors import InvalidArgumentError, SerializationError

Features = dict[str, dict[str, Any]]
"""By feature, the arguments that make Feast's `Value`."""


@dataclass(frozen=True, slots=True)
class ServedView:
    """A feature view.

    Attributes:
        name: its name in Feast.
        store: the store that holds its rows.
        kinds: the type of each feature, as Feast names it.
        fields: the field of the JSON value by feature, for those that are not named alike.
        event_time: the field that holds the time of the row's event; empty if none does.
    """

    name: str
    store: str
    kinds: Mapping[str, str]
    fields: Mapping[str, str]
    event_time: str = ""

    def check_types(self) -> None:
        """Checks that each feature is of a type that JSON values can be read as.

        Raises:
            InvalidArgumentError: one isn't.
        """
        for feature, kind in self.kinds.items():
            if not is_served(kind):
                msg = (
                    f"feature {feature} of view {self.name} is {kind}, which can't be read from a store: "
                    f"declare one of {', '.join(served_kinds())}, or a list of it"
                )
                raise InvalidArgumentError(msg)

    def row(self, value: Any, features: Iterable[str]) -> tuple[datetime | None, Features | None]:
        """The time of the row's event, and the features that the value has; (None, None) if there is no row.

        Raises:
            SerializationError: the value is no JSON object, or a field isn't of its feature's type.
            InvalidArgumentError: the view has no such feature.
        """
        if value is None:
            return None, None
        if not isinstance(value, dict):
            msg = f"a value of store {self.store} is no JSON object, so view {self.name} has no features there"
            raise SerializationError(msg)
        at = value.get(self.event_time) if self.event_time else None
        found = {feature: self._feature(feature, value) for feature in features if self._field(feature) in value}
        return (None if at is None else self._event_time(at)), found

    def _feature(self, feature: str, value: Mapping[str, Any]) -> dict[str, Any]:
        if feature not in self.kinds:
            msg = f"feature view {self.name} has no feature {feature}"
            raise InvalidArgumentError(msg)
        try:
            return content(self.kinds[feature], value[self._field(feature)])
        except SerializationError as error:
            msg = f"field {self._field(feature)} of store {self.store} can't be feature {feature}: {error}"
            raise SerializationError(msg) from error

    def _event_time(self, found: Any) -> datetime:
        try:
            return moment(found)
        except SerializationError as error:
            msg = f"field {self.event_time} of store {self.store} can't be the time of view {self.name}: {error}"
            raise SerializationError(msg) from error

    def _field(self, feature: str) -> str:
        return self.fields.get(feature, feature)
