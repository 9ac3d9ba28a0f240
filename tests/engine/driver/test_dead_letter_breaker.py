from __future__ import annotations

import pytest

from storekeeper.engine.driver.runner import DeadLetterBreaker, DeadLetterLimitError


def test_a_share_above_the_limit_is_a_storm() -> None:
    watch = DeadLetterBreaker(0.5, 60, 100)
    watch.check(10, 1000, 500)
    with pytest.raises(DeadLetterLimitError, match="701 of the last 1400 records"):
        watch.check(20, 1400, 701)


def test_few_records_say_nothing() -> None:
    watch = DeadLetterBreaker(0.5, 60, 100)
    watch.check(10, 99, 99)


def test_what_was_good_long_ago_does_not_hide_a_storm() -> None:
    watch = DeadLetterBreaker(0.5, 60, 100)
    watch.check(10, 1_000_000, 0)
    watch.check(50, 1_000_050, 50)
    watch.check(100, 1_000_090, 90)
    with pytest.raises(DeadLetterLimitError, match="110 of the last 110 records"):
        watch.check(110, 1_000_160, 160)


def test_nor_does_a_storm_long_ago_count_for_ever() -> None:
    watch = DeadLetterBreaker(0.9, 60, 100)
    watch.check(10, 1000, 800)
    watch.check(100, 1100, 800)
