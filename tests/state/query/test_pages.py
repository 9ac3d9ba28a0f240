"""Pages and their merging."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.query.pages import KeyRange, Page, PageLimits, merge_pages, take_page

rows = st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=5), max_size=30)


@given(rows, st.integers(1, 4), st.integers(1, 10), st.integers(1, 30))
def test_pages_of_partitions_make_up_the_whole(
    table: dict[bytes, bytes], partitions: int, limit: int, max_bytes: int
) -> None:
    parts = [sorted(row for row in table.items() if row[0][0] % partitions == part) for part in range(partitions)]
    limits = PageLimits(limit, max_bytes)
    seen: list[tuple[bytes, bytes]] = []
    keys = KeyRange()
    for _ in range(len(table) + 1):
        pages = [
            take_page(iter([row for row in part if keys.start is None or row[0] >= keys.start]), limits)
            for part in parts
        ]
        page = merge_pages(pages, limits)
        assert len(page.rows) <= limit
        seen.extend(page.rows)
        if not page.more:
            break
        keys = keys.behind(page.rows[-1][0])
    assert seen == sorted(table.items())


def test_one_row_over_the_byte_limit_still_comes() -> None:
    page = take_page(iter([(b"a", b"x" * 100), (b"b", b"")]), PageLimits(10, 10))
    assert page == Page([(b"a", b"x" * 100)], more=True)


def test_a_cut_page_hides_later_keys_of_the_others() -> None:
    cut = Page([(b"a", b"1"), (b"c", b"1")], more=True)
    whole = Page([(b"b", b"2"), (b"d", b"2")], more=False)
    merged = merge_pages([cut, whole], PageLimits(10, 1000))
    assert [key for key, _ in merged.rows] == [b"a", b"b", b"c"]
    assert merged.more


def test_both_ends_are_inclusive_and_open_ones_have_no_bound() -> None:
    assert (KeyRange(b"a", b"b").start, KeyRange(b"a", b"b").stop) == (b"a", b"b\0")
    assert (KeyRange().start, KeyRange().stop) == (None, None)
    assert KeyRange(b"a", b"z").behind(b"m") == KeyRange(b"m\0", b"z")
