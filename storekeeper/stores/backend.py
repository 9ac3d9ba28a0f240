"""What all backends have."""

from __future__ import annotations

from typing import NoReturn

from storekeeper.errors import StoreClosedError
from storekeeper.names import checked_name
from storekeeper.stores.iterators import OpenIterators


class Backend:
    """The base of every `BytesStore` that holds rows itself.

    Attributes:
        persistent: whether rows outlive the process.
    """

    persistent = False

    def __init__(self, name: str) -> None:
        """Raises InvalidNameError if the name can't name a store."""
        self._name = checked_name(name)
        self._iterators = OpenIterators()
        self._open = True

    @property
    def name(self) -> str:
        """The store's name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """False after `close`."""
        return self._open

    @property
    def open_iterators(self) -> OpenIterators:
        """The iterators that are open on this store."""
        return self._iterators

    def _refuse(self) -> NoReturn:
        msg = f"store {self._name} is closed; open it again first"
        raise StoreClosedError(msg)
