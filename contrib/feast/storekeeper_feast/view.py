"""A feature view and the store that holds its rows, without Feast: which field is which feature.

The name of a feature's type gives the field of Feast's `Value`. What a type can't hold exactly is refused and never
rounded. Floats alone are the nearest number of their size, as they are everywhere. Bytes are base64 text, and times are
text in ISO 8601: a number would not say its unit.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from storekeeper.client.queries import Key
from storekeeper.errors import InvalidArgumentError, SerializationError

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
            SerializationError: the value is not a JSON object, or a field isn't of its feature's type.
            InvalidArgumentError: the view has no such feature.
        """
        if value is None:
            return None, None
        if not isinstance(value, dict):
            msg = f"a value of store {self.store} is not a JSON object, so view {self.name} has no features there"
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


_TEXT = {"string_val", "uuid_val", "time_uuid_val"}
_WHOLE = {"int32_val", "int64_val"}


def check_entities(view: str, entities: Sequence[str]) -> None:
    """Checks that a feature view has the one entity that a row's key can be.

    Raises:
        InvalidArgumentError: it has none, or several.
    """
    if len(entities) != 1 or entities[0].startswith("__dummy"):
        msg = (
            f"feature view {view} needs one entity, because a row of a store has one key: declare the entity whose "
            "join key holds that key as text, a whole number or bytes"
        )
        raise InvalidArgumentError(msg)


def row_key(join_key: str, kind: str | None, value: Any) -> Key:
    """The key of an entity's row: text and bytes as they are, a whole number as its decimal digits.

    Args:
        join_key: the entity's join key.
        kind: the field of Feast's `Value` that holds the entity's value, such as `int64_val`.
        value: what it holds.

    Raises:
        InvalidArgumentError: a key can't be of that type.
    """
    if kind in _TEXT:
        return str(value)
    if kind in _WHOLE:
        return str(int(value))
    if kind == "bytes_val":
        return bytes(value)
    msg = f"join key {join_key} is {kind or 'empty'}: the key of a row is text, a whole number or bytes"
    raise InvalidArgumentError(msg)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIST = "_LIST"
_MOST_DIGITS = 20


def is_served(kind: str) -> bool:
    """Whether features of a type of Feast, such as `INT64` or `STRING_LIST`, can be read from JSON values."""
    return kind.removesuffix(_LIST) in _SCALARS


def served_kinds() -> list[str]:
    """The types of single values, sorted; there are lists of each."""
    return sorted(_SCALARS)


def content(kind: str, found: Any) -> dict[str, Any]:
    """The arguments that make Feast's `Value`. None for a JSON null is a `Value` without content.

    Args:
        kind: the feature's type, which `is_served`.
        found: the JSON value, numbers with a fraction as `Decimal`.

    Raises:
        SerializationError: it isn't of that type, or the type can't hold it exactly.
    """
    if found is None:
        return {}
    try:
        if not kind.endswith(_LIST):
            return {f"{kind.lower()}_val": _SCALARS[kind](found)}
        convert = _SCALARS[kind.removesuffix(_LIST)]
        return {f"{kind.lower()}_val": {"val": [convert(each) for each in _of(list, found)]}}
    except (ValueError, TypeError, ArithmeticError):  # their texts may have parts of the value
        msg = f"a {type(found).__name__} is not a {kind}, or has more digits than that can hold"
        raise SerializationError(msg) from None


def moment(found: Any) -> datetime:
    """The time of an event: whole epoch milliseconds, or text in ISO 8601, which is in UTC if it has no zone.

    Raises:
        SerializationError: it is neither.
    """
    try:
        if isinstance(found, str):
            return _iso(found)
        return _EPOCH + timedelta(milliseconds=_whole(64)(found))
    except (ValueError, TypeError, ArithmeticError):
        raise SerializationError("an event time is neither epoch milliseconds nor text in ISO 8601") from None


def _of(kind: type, found: Any) -> Any:
    if not isinstance(found, kind):
        raise TypeError(kind.__name__)
    return found


def _whole(bits: int) -> Callable[[Any], int]:
    bound = 1 << (bits - 1)

    def convert(found: Any) -> int:
        number = _number(found)
        if number.adjusted() > _MOST_DIGITS or number != (whole := int(number)) or not -bound <= whole < bound:
            raise ValueError(bits)
        return whole

    return convert


def _number(found: Any) -> Decimal:
    if isinstance(found, bool) or not isinstance(found, int | Decimal):
        raise TypeError("number")
    return Decimal(found)


def _double(found: Any) -> float:
    number = float(_number(found))
    if not math.isfinite(number):
        raise OverflowError
    return number


def _float(found: Any) -> float:
    (number,) = struct.unpack("<f", struct.pack("<f", _double(found)))
    return float(number)


def _iso(text: Any) -> datetime:
    at = datetime.fromisoformat(_of(str, text))
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _seconds(found: Any) -> int:
    since = _iso(found) - _EPOCH
    if since.microseconds:
        raise ValueError("fraction of a second")
    return since.days * 86_400 + since.seconds


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "BOOL": lambda found: _of(bool, found),
    "BYTES": lambda found: base64.b64decode(_of(str, found), validate=True),
    "DECIMAL": lambda found: str(_number(found)),
    "DOUBLE": _double,
    "FLOAT": _float,
    "INT32": _whole(32),
    "INT64": _whole(64),
    "STRING": lambda found: _of(str, found),
    "TIME_UUID": lambda found: str(UUID(_of(str, found))),
    "UNIX_TIMESTAMP": _seconds,
    "UUID": lambda found: str(UUID(_of(str, found))),
}
