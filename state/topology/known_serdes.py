"""The serdes of a stream's keys and values, as far as they are known where the topology is described."""

from __future__ import annotations

from typing import Any, NamedTuple

from state.errors import ConfigurationError
from state.serdes.serde import Serde
from state.serdes.struct import serde_of
from state.topology.functions import returned_type


class Serdes(NamedTuple):
    """Serdes of keys and values; None where the type is not known."""

    keys: Serde[Any] | None
    values: Serde[Any] | None

    def required(self, where: str) -> tuple[Serde[Any], Serde[Any]]:
        """Both serdes.

        Raises:
            ConfigurationError: one is not known.
        """
        why_not = f"{where}: the type of the keys is not known here: pass keys= where they are made"
        return _known(self.keys, why_not), self.required_values(where)

    def required_values(self, where: str) -> Serde[Any]:
        """The serde of values.

        Raises:
            ConfigurationError: it is not known.
        """
        way_on = "annotate what makes them, or pass values="
        return _known(self.values, f"{where}: the type of the values is not known here: {way_on}")


def _known(serde: Serde[Any] | None, why_not: str) -> Serde[Any]:
    if serde is None:
        raise ConfigurationError(why_not)
    return serde


def made_by(function: object, spec: Any = None) -> Serde[Any] | None:
    """The serde of what a function returns: of `spec` if it is given, else of the function's annotation."""
    wanted = spec if spec is not None else returned_type(function)
    if wanted is None:
        return None
    try:
        return serde_of(wanted)
    except ConfigurationError:
        if spec is not None:
            raise
        return None
