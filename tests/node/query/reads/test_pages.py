"""Pages and their merging."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidArgumentError, SerializationError
from storekeeper.node.query.answers.answer import Answer
from storekeeper.node.query.answers.json_rows import RowLayout, RowTimes
from storekeeper.node.query.answers.origins import Origin
from storekeeper.node.query.reads.gather import PartitionQuery, _decoded, asked_query, packed
from storekeeper.node.query.reads.many import KeysQuery
from storekeeper.node.query.reads.pages import (
    CursorCodec,
    KeyRange,
    PageLimits,
    PageQuery,
    RowPage,
    Scan,
    merge_pages,
    take_page,
)
from storekeeper.node.query.reads.ranked import ListQuery, StandingQuery, score_in
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex, negated

rows = st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=5), max_size=30)


@given(rows, st.integers(1, 4), st.integers(1, 10), st.integers(1, 30), st.booleans())
def test_pages_of_partitions_make_up_the_whole(
    table: dict[bytes, bytes], partitions: int, limit: int, max_bytes: int, reverse: bool
) -> None:
    parts = [
        sorted((row for row in table.items() if row[0][0] % partitions == part), reverse=reverse)
        for part in range(partitions)
    ]
    limits = PageLimits(limit, max_bytes)
    seen: list[tuple[bytes, bytes]] = []
    scan = Scan("s", reverse=reverse)
    for _ in range(len(table) + 1):
        pages = [take_page(iter([row for row in part if _within(scan, row[0])]), limits) for part in parts]
        page = merge_pages(pages, limits, reverse=reverse)
        assert len(page.rows) <= limit
        seen.extend(page.rows)
        if page.reached is None:
            break
        scan = scan.beyond(page.reached)
    assert seen == sorted(table.items(), reverse=reverse)


def _within(scan: Scan, key: bytes) -> bool:
    keys = scan.keys
    return (keys.start is None or keys.start <= key) and (keys.stop is None or key < keys.stop)


def test_one_row_over_the_byte_limit_still_comes() -> None:
    page = take_page(iter([(b"a", b"x" * 100), (b"b", b"")]), PageLimits(10, 10))
    assert page == RowPage([(b"a", b"x" * 100)], b"a")


def test_a_cut_page_hides_later_keys_of_the_others() -> None:
    cut = RowPage([(b"a", b"1"), (b"c", b"1")], b"c")
    whole = RowPage([(b"b", b"2"), (b"d", b"2")])
    merged = merge_pages([cut, whole], PageLimits(10, 1000))
    assert [key for key, _ in merged.rows] == [b"a", b"b", b"c"]
    assert merged.reached == b"c"


def test_a_search_that_has_looked_at_enough_says_how_far_it_came() -> None:
    rows = [(b"%02d" % number, b"") for number in range(20)]
    page = take_page(iter(rows), PageLimits(10, 1000, examined=5), lambda key: key == b"03")
    assert page == RowPage([(b"03", b"")], b"04")
    nothing = take_page(iter(rows), PageLimits(10, 1000, examined=5), lambda _: False)
    assert merge_pages([nothing, RowPage([(b"03", b"")])], PageLimits(10, 1000)) == RowPage([(b"03", b"")], b"04")


def test_ranges_and_prefixes() -> None:
    assert KeyRange.between(b"a", b"b") == KeyRange(b"a", b"b\0")
    assert KeyRange.between(None, None) == KeyRange()
    assert KeyRange.starting_with(b"a\xff") == KeyRange(b"a\xff", b"b")
    assert KeyRange.starting_with(b"\xff") == KeyRange(b"\xff", None)
    assert Scan("s", KeyRange(b"a", b"z")).beyond(b"m").keys == KeyRange(b"m\0", b"z")
    assert Scan("s", KeyRange(b"a", b"z"), reverse=True).beyond(b"m").keys == KeyRange(b"a", b"m")


def test_a_scan_is_told_from_every_other_one() -> None:
    scans = [
        Scan("s"),
        Scan("t"),
        Scan("s", reverse=True),
        Scan("s", KeyRange(b"a")),
        Scan("s", KeyRange(None, b"a")),
        Scan("s", times=RowTimes(RowLayout.WINDOW, 1)),
        Scan("s", times=RowTimes(RowLayout.SESSION, 1)),
    ]
    assert len({scan.identity() for scan in scans}) == len(scans)


@given(st.builds(RowTimes, st.sampled_from(RowLayout), *[st.integers(0, 2**63 - 1)] * 4))
def test_times_and_pages_come_back_from_the_wire(times: RowTimes) -> None:
    scan, limits = Scan("s", KeyRange(b"\xff", b"\xff\x01"), reverse=True, times=times), PageLimits(3, 4, 5)
    query = PageQuery(scan, limits)
    sent = query.request([3], "of=4").path.partition("?query=")[2].removesuffix("&of=4")
    assert asked_query(PageQuery, sent).within(PageLimits(9, 9, 9)) == query
    assert asked_query(PageQuery, sent).within(PageLimits(1, 2, 3)) == PageQuery(scan, PageLimits(1, 2, 3))
    page = RowPage([(b"k", b""), (b"\xff", b"v")], b"\xff")
    origin = Origin("a", "t", 3, "active", 17, None, 12)
    assert query.decode(packed(page, [origin])) == (page, [origin])


@pytest.mark.parametrize(
    "body",
    [b"", b"\x92", b"\x92\x80", b"\xff\xff\xff\xff", b"{}", b"\x92\xc0\x91\x80", packed(None, [])[:-1] + b"\x91"],
)
@pytest.mark.parametrize(
    "query",
    [
        PageQuery(Scan("s"), PageLimits(1, 1)),
        KeysQuery("s", {}),
        ListQuery("s", 1, 1),
        StandingQuery("s", b"k"),
    ],
)
def test_another_version_s_answer_is_refused(query: PartitionQuery[Any], body: bytes) -> None:
    with pytest.raises(SerializationError, match="let all nodes have one version"):
        _decoded(query, Answer(200, [], body))


@pytest.mark.parametrize("text", ["", "!", "wA==", base64.urlsafe_b64encode(b"\x81\xa5store\xc0").decode()])
@pytest.mark.parametrize("kind", [PageQuery, ListQuery, StandingQuery])
def test_another_version_s_query_is_refused(kind: type[Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        asked_query(kind, text)


@pytest.mark.parametrize("score", ["0", "-7", "9223372036854775807", "-9223372036854775808", "9" * 300, "0.10", "1e-9"])
def test_scores_of_any_size_come_back_from_the_wire(score: str) -> None:
    query = ListQuery("s", 1, 1, highest=score_in(score), after=b"\xff")
    assert asked_query(ListQuery, query.request([0], "").path.partition("?query=")[2].removesuffix("&")) == query
    index = RankedIndex("n", IndexBudget(1 << 20))
    index.apply([(b"k", b'{"n":%b}' % score.encode())])
    part, standing = ListQuery("s", 1, 9).over([index.view()]), StandingQuery("s", b"k").over(index)
    assert str(part.entries[0][0]) == str(negated(score_in(score)))
    assert query.decode(packed(part, [])) == (part, [])
    assert StandingQuery("s", b"k").decode(packed(standing, [])) == (standing, [])


CODEC = CursorCodec(b"k" * 32)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_comes_back(scan: bytes, after: bytes) -> None:
    assert CODEC.decode(scan, CODEC.encode(scan, after)) == after


@given(st.binary(max_size=20), st.binary(max_size=20), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_one_is_refused(scan: bytes, after: bytes, place: int, change: int) -> None:
    cursor = CODEC.encode(scan, after)
    data = bytearray(cursor.encode())
    data[place % len(data)] ^= change
    changed = data.decode("latin-1")
    try:
        # The last character may carry bits that mean nothing: then the cursor still says the same.
        assert CODEC.decode(scan, changed) == after
        assert place % len(data) == len(data) - 1
    except InvalidArgumentError:
        pass


def test_one_of_another_scan_or_key_is_refused() -> None:
    cursor = CODEC.encode(b"one", b"k")
    for codec, scan in ((CODEC, b"other"), (CursorCodec(b"x" * 32), b"one")):
        with pytest.raises(InvalidArgumentError):
            codec.decode(scan, cursor)


@pytest.mark.parametrize("cursor", ["", "A", "AAAA", "%%%", "ä"])
def test_nonsense_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidArgumentError):
        CODEC.decode(b"one", cursor)


def test_the_boundary_between_scan_and_key_is_signed() -> None:
    with pytest.raises(InvalidArgumentError):
        CODEC.decode(b"on", CODEC.encode(b"one", b"k"))
