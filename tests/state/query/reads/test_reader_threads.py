"""Reads in threads end when nobody waits for them, and give their place back when they have ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from state.query.answers.problems import TooManyScansError
from state.query.reads.reader_threads import GivenUpError, ReaderThreads, while_wanted


class Rows:
    """Endless rows; says how the reading of them ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def read(self) -> int:
        try:
            return sum(while_wanted(self._rows()))
        except GivenUpError as error:
            self.error = error
            raise
        finally:
            self.ended.set()

    def _rows(self) -> Iterator[int]:
        while True:
            yield 0
            self.begun.set()
            assert self.goes_on.wait(20)


def test_a_read_gives_its_result_and_its_place_back() -> None:
    async def test() -> None:
        readers = ReaderThreads(2)
        assert await asyncio.gather(*(readers.run(lambda: sum(while_wanted(iter(range(5))))) for _ in range(2))) == [
            10,
            10,
        ]
        await asyncio.sleep(0)
        assert readers.free == 2

    asyncio.run(test())


def test_a_read_that_is_given_up_ends_and_counts_until_then() -> None:
    async def test() -> None:
        readers, rows = ReaderThreads(1), Rows()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await readers.run(rows.read)
        with pytest.raises(TooManyScansError):
            await readers.run(lambda: 1)
        rows.goes_on.set()
        assert await asyncio.to_thread(rows.ended.wait, 20)
        assert isinstance(rows.error, GivenUpError)
        while readers.free == 0:  # noqa: ASYNC110 - the place comes back by a call into this loop
            await asyncio.sleep(0)
        assert await readers.run(lambda: 1) == 1

    asyncio.run(test())


def test_a_read_that_waits_for_a_thread_and_is_given_up_never_begins() -> None:
    async def test() -> None:
        readers, many = ReaderThreads(32), [Rows() for _ in range(32)]
        tasks = [asyncio.create_task(readers.run(rows.read)) for rows in many]
        assert await asyncio.to_thread(many[0].begun.wait, 20)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(found, asyncio.CancelledError) for found in await asyncio.gather(*tasks, return_exceptions=True)
        )
        for rows in many:
            rows.goes_on.set()
        while readers.free < 32:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        assert not all(rows.begun.is_set() for rows in many)

    asyncio.run(test())


def test_rows_that_no_thread_reads_are_left_alone() -> None:
    rows = iter([1, 2])
    assert while_wanted(rows) is rows
