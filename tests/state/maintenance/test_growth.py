from __future__ import annotations

from state.maintenance.growth import DAY_MS, GrowthLimits, Size, growth_of

HOUR_MS = 3_600_000
LIMITS = GrowthLimits(rows_per_day=50_000, bytes_per_day=1e9)


def daily(*rows: int) -> list[Size]:
    return [Size(day * DAY_MS, count, count * 10) for day, count in enumerate(rows)]


def test_nothing_is_said_of_a_store_that_was_just_seen_for_the_first_time() -> None:
    assert growth_of([], LIMITS) is None
    assert growth_of([Size(0, 1, 1)], LIMITS) is None
    assert growth_of([Size(0, 1, 1), Size(HOUR_MS - 1, 10**9, 1)], LIMITS) is None


def test_rates_are_of_a_day_or_what_there_is_of_it() -> None:
    found = growth_of([Size(0, 0, 0), Size(6 * HOUR_MS, 1000, 4000)], LIMITS)
    assert found is not None
    assert (found.rows_per_day, found.bytes_per_day, found.reasons) == (4000, 16_000, ())


def test_growth_over_a_limit_is_reported() -> None:
    found = growth_of(daily(0, 60_000), LIMITS)
    assert found is not None
    assert found.reasons == ("it grows by 60,000 rows a day, over the limit of 50,000",)
    heavy = growth_of([Size(0, 0, 0), Size(DAY_MS, 1, 2 * 10**9)], LIMITS)
    assert heavy is not None
    assert "bytes a day" in heavy.reasons[0]


def test_growth_far_beyond_the_usual_is_reported_and_a_shrinking_store_is_not() -> None:
    found = growth_of(daily(0, 2000, 4000, 6000, 8000, 28_000), LIMITS)
    assert found is not None
    assert found.usual_rows_per_day == 2000
    assert found.reasons == ("it grows by 20,000 rows a day, but usually by 2,000",)
    for usual in (daily(0, 2000, 4000, 6000, 8000, 10_000), daily(900, 800, 700, 600, 500), daily(5, 5, 5, 5, 1000)):
        shrinking = growth_of(usual, LIMITS)
        assert shrinking is not None
        assert shrinking.reasons == ()
