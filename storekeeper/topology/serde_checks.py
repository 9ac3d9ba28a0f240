"""The serdes of a stream, as far as they are known, and whether those that meet write the same types."""

from __future__ import annotations

import types
import typing
from typing import Any, NamedTuple, TypeVar

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import BytesSerde, Int64Serde, Serde, Utf8Serde
from storekeeper.serdes.struct import StructSerde, serde_of
from storekeeper.topology.functions import returned_type
from storekeeper.topology.windows import WindowedSerde

_FORMS: tuple[tuple[type, str], ...] = (
    (Utf8Serde, "text"),
    (BytesSerde, "bytes"),
    (Int64Serde, "eight bytes"),
    (StructSerde, "JSON"),
    (JsonSerde, "JSON"),
)
_UNKNOWN = (None, Any, object)


def check_keys(operator: str, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
    """Refuses keys of two inputs that can't be equal, or whose records would be in different partitions.

    Raises:
        ConfigurationError: they are of different types, or are written differently.
    """
    if not _same_keys(left, right):
        raise ConfigurationError(
            f"{operator}: the keys on its two sides differ: {name_of(left)} and {name_of(right)}. "
            "Pass the same keys= where they are made"
        )


def check_type(what: str, actual: Serde[Any] | None, expected: Serde[Any] | None) -> None:
    """Refuses values of one type where those of another are wanted.

    Raises:
        ConfigurationError: both are known, and differ.
    """
    if not _fits(_type_of(actual), _type_of(expected)):
        msg = f"{what} {name_of(actual)} where {name_of(expected)} is wanted: convert them, or say the other type"
        raise ConfigurationError(msg)


def wider(operator: str, left: Serde[Any] | None, right: Serde[Any] | None) -> Serde[Any] | None:
    """The serde that writes the values of both sides.

    Raises:
        ConfigurationError: neither writes both.
    """
    one, two = _type_of(left), _type_of(right)
    if _fits(two, one):
        return left
    if _fits(one, two):
        return right
    both = f"{name_of(left)} and {name_of(right)}"
    raise ConfigurationError(f"{operator}: the values are {both}: map them to one type first, which may be a union")


def name_of(serde: Serde[Any] | None) -> str:
    """A serde's type and form, for messages."""
    if isinstance(serde, WindowedSerde):
        return f"windows of {name_of(serde.keys)}"
    type_ = _type_of(serde)
    name = getattr(type_, "__name__", str(type_)) if typing.get_origin(type_) is None else str(type_)
    if type_ in _UNKNOWN:
        return f"those of {type(serde).__name__}"
    form = _form_of(serde)
    return name if form is None or isinstance(serde, StructSerde) else f"{name} as {form}"


def _same_keys(left: Serde[Any] | None, right: Serde[Any] | None) -> bool:
    if left is None or right is None:
        return True
    if isinstance(left, WindowedSerde) or isinstance(right, WindowedSerde):
        both = isinstance(left, WindowedSerde) and isinstance(right, WindowedSerde)
        return both and _same_keys(left.keys, right.keys)  # type: ignore[attr-defined]
    forms = {_form_of(left), _form_of(right)} - {None}
    one, two = _type_of(left), _type_of(right)
    return len(forms) < 2 and (_fits(one, two, exactly=True) or _fits(two, one, exactly=True))


def _form_of(serde: object) -> str | None:
    return next((form for kind, form in _FORMS if isinstance(serde, kind)), None)


def _type_of(serde: Serde[Any] | None) -> Any:
    """The type that a serde reads, or None if it doesn't say."""
    if serde is None:
        return None
    if isinstance(serde, StructSerde):
        return serde.type
    try:
        returned = typing.get_type_hints(serde.deserialize).get("return")
    except (NameError, TypeError, AttributeError):
        return None
    return None if isinstance(returned, TypeVar) else returned


def _fits(actual: Any, expected: Any, *, exactly: bool = False) -> bool:
    """Whether values of one type are values of another. What is not known fits."""
    actual, expected = _plain(actual), _plain(expected)
    if actual == expected or _is_unknown(actual) or _is_unknown(expected):
        return True
    members = _members(expected)
    if len(members) > 1 or len(_members(actual)) > 1:
        return all(any(_fits(part, member, exactly=exactly) for member in members) for part in _members(actual))
    if (typing.get_origin(actual) or actual) == (typing.get_origin(expected) or expected):
        pairs = zip(typing.get_args(actual), typing.get_args(expected), strict=False)
        return all(_fits(one, two, exactly=exactly) for one, two in pairs)
    if exactly or not (isinstance(actual, type) and isinstance(expected, type)):
        return False
    return issubclass(actual, expected) or (actual is int and expected is float)


def _is_unknown(kind: Any) -> bool:
    return kind in _UNKNOWN or isinstance(kind, TypeVar | types.EllipsisType)


def _plain(kind: Any) -> Any:
    """A type without what says nothing about its values' kind: limits, a name of its own, the fields of a dict."""
    while typing.get_origin(kind) is typing.Annotated or isinstance(kind, typing.NewType):
        kind = kind.__supertype__ if isinstance(kind, typing.NewType) else typing.get_args(kind)[0]
    members = _members(kind)
    if len(members) == 1 and members != [kind]:
        return _plain(members[0])
    return dict if typing.is_typeddict(kind) else kind


def _members(kind: Any) -> list[Any]:
    """The types of a union without None, which is no value but the lack of one."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return [part for part in typing.get_args(kind) if part is not types.NoneType]
    return [kind]


class Serdes(NamedTuple):
    """Serdes of keys and values; None where the type is not known."""

    keys: Serde[Any] | None
    values: Serde[Any] | None

    def required(self, where: str) -> tuple[Serde[Any], Serde[Any]]:
        """Both serdes.

        Raises:
            ConfigurationError: one is not known.
        """
        return self.required_keys(where), self.required_values(where)

    def required_keys(self, where: str) -> Serde[Any]:
        """The serde of keys.

        Raises:
            ConfigurationError: it is not known.
        """
        return _known(self.keys, f"{where}: the type of the keys is not known here: pass keys= where they are made")

    def required_values(self, where: str, way_on: str = "annotate what makes them, or pass values=") -> Serde[Any]:
        """The serde of values. `way_on` is what the user can do if it is not known.

        Raises:
            ConfigurationError: it is not known.
        """
        return _known(self.values, f"{where}: the type of the values is not known here: {way_on}")


def _known(serde: Serde[Any] | None, why_not: str) -> Serde[Any]:
    if serde is None:
        raise ConfigurationError(why_not)
    return serde


def made_by(function: object, spec: Any = None) -> Serde[Any] | None:
    """The serde of what a function returns: of `spec` if it is given, else of the function's annotation."""
    return of_type(returned_type(function), spec)


def of_type(given: Any, spec: Any = None) -> Serde[Any] | None:
    """The serde of `spec` if it is given, else of the type that a function is annotated to make, if that has one."""
    if spec is not None:
        return serde_of(spec)
    try:
        return None if given is None else serde_of(given)
    except ConfigurationError:
        return None


def keys_of(operator: str, given: Any, spec: Any) -> Serde[Any]:
    """The serde of keys: of `spec` if it is given, else of the type that they are made of; text if it is not known.

    Raises:
        ConfigurationError: the type has no serde.
    """
    try:
        if spec is None:
            return serde_of(str if given is None else given)
        keys: Serde[Any] = serde_of(spec)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{operator}: keys can't be of type {given if spec is None else spec!r}: pass keys= with a serde ({error})"
        ) from error
    check_type(f"{operator}: the keys are", of_type(given), keys)
    return keys
