"""Work without the garbage collector."""

from __future__ import annotations

import gc

import pytest

from storekeeper.collector import collector_off


def test_it_is_off_until_the_outermost_block_ends() -> None:
    assert gc.isenabled()
    with collector_off():
        with collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_and_each_call_of_a_decorated_function_leave_it_on() -> None:
    @collector_off()
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError("as meant")

    for _ in range(2):
        with pytest.raises(ValueError, match="as meant"):
            fail()
        assert gc.isenabled()


def test_a_process_without_it_stays_without_it() -> None:
    gc.disable()
    try:
        with collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
