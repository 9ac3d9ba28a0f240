"""The serdes of a stream's keys and values, as far as they are known where the topology is described."""

from __future__ import annotations

from typing import Any, NamedTuple

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import serde_of
from storekeeper.topology.functions import returned_type
from storekeeper.topology.serde_checks import check_type


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
        """The serde of values.

        Args:
            where: the operator.
            way_on: what the user can do if it is not known.

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


def of_type(made: Any, spec: Any = None) -> Serde[Any] | None:
    """The serde of `spec` if it is given, else of the type that a function is annotated to make, if that has one."""
    if spec is not None:
        return serde_of(spec)
    try:
        return None if made is None else serde_of(made)
    except ConfigurationError:
        return None


def keys_of(operator: str, made: Any, spec: Any) -> Serde[Any]:
    """The serde of keys: of `spec` if it is given, else of the type that they are made of; text if it is not known.

    Raises:
        ConfigurationError: the type has no serde.
    """
    try:
        if spec is None:
            return serde_of(str if made is None else made)
        found: Serde[Any] = serde_of(spec)
    except ConfigurationError as error:
        msg = f"{operator}: keys can't be of type {made if spec is None else spec!r}: pass keys= with a serde ({error})"
        raise ConfigurationError(msg) from error
    check_type(f"{operator}: the keys are", of_type(made), found)
    return found
