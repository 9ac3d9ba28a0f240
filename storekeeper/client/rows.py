"""Rows that are fetched page by page during iteration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from storekeeper.client.queries import Query
from storekeeper.client.readings import Listing, Page, Reading

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

T = TypeVar("T")


class Rows(Generic[T]):
    """Rows in the order of their keys. Each iteration asks again. One page is consistent; several pages are not."""

    def __init__(self, ask: Callable[[Query[Page[T]]], Reading[Page[T]]], first: Query[Page[T]]) -> None:
        self._ask = ask
        self._first = first

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.value.rows

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table in memory; see `Listing`."""
        return self._listing().to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a data frame in memory; see `Listing`."""
        return self._listing().to_pandas()

    def _listing(self) -> Listing[T]:
        pages = [page.value.rows for page in self.pages()]
        return Listing(pages[0].kind, (row for rows in pages for row in rows))

    def pages(self) -> Iterator[Reading[Page[T]]]:
        """The pages, each with its origin."""
        query = self._first
        while True:
            page = self._ask(query)
            yield page
            if page.value.cursor is None:
                return
            query = self._first.following(page.value.cursor)


class AsyncRows(Generic[T]):
    """The same with `async for`."""

    def __init__(self, ask: Callable[[Query[Page[T]]], Awaitable[Reading[Page[T]]]], first: Query[Page[T]]) -> None:
        self._ask = ask
        self._first = first

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for row in page.value.rows:
                yield row

    async def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table in memory; see `Listing`."""
        return (await self._listing()).to_arrow()

    async def to_pandas(self) -> pd.DataFrame:
        """All rows as a data frame in memory; see `Listing`."""
        return (await self._listing()).to_pandas()

    async def _listing(self) -> Listing[T]:
        pages = [page.value.rows async for page in self.pages()]
        return Listing(pages[0].kind, (row for rows in pages for row in rows))

    async def pages(self) -> AsyncIterator[Reading[Page[T]]]:
        """The pages, each with its origin."""
        query = self._first
        while True:
            page = await self._ask(query)
            yield page
            if page.value.cursor is None:
                return
            query = self._first.following(page.value.cursor)
