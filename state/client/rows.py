"""Rows that are fetched page by page during iteration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from state.client.questions import Question
from state.client.readings import Page, Reading

T = TypeVar("T")


class Rows(Generic[T]):
    """Rows in the order of their keys. Each iteration asks again. One page is consistent; several pages are not."""

    def __init__(self, ask: Callable[[Question[Page[T]]], Reading[Page[T]]], first: Question[Page[T]]) -> None:
        self._ask = ask
        self._first = first

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.value.rows

    def pages(self) -> Iterator[Reading[Page[T]]]:
        """The pages, each with its origin."""
        question = self._first
        while True:
            page = self._ask(question)
            yield page
            if page.value.cursor is None:
                return
            question = self._first.following(page.value.cursor)


class AsyncRows(Generic[T]):
    """The same with `async for`."""

    def __init__(
        self, ask: Callable[[Question[Page[T]]], Awaitable[Reading[Page[T]]]], first: Question[Page[T]]
    ) -> None:
        self._ask = ask
        self._first = first

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for row in page.value.rows:
                yield row

    async def pages(self) -> AsyncIterator[Reading[Page[T]]]:
        """The pages, each with its origin."""
        question = self._first
        while True:
            page = await self._ask(question)
            yield page
            if page.value.cursor is None:
                return
            question = self._first.following(page.value.cursor)
