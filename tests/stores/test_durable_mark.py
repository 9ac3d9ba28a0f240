"""The durable mark: every change to the bytes that it covers is seen, and nothing else is taken for damage."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import StoreCorruptedError
from storekeeper.stores.durable_mark import FILE_NAME, DurableMark, check_whole, observed_mark, read_mark, write_mark

MANIFEST = b"written and only ever appended to"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "CURRENT").write_text("MANIFEST-000005\n")
    (tmp_path / "MANIFEST-000005").write_bytes(MANIFEST)
    return tmp_path


def test_it_says_what_is_on_disk(directory: Path) -> None:
    assert observed_mark(directory, 7) == DurableMark(7, 5, len(MANIFEST), zlib.crc32(MANIFEST))


U64 = st.integers(0, 2**64 - 1)


@given(st.builds(DurableMark, U64, U64, U64, st.integers(0, 2**32 - 1)))
def test_its_file_is_forty_bytes_and_says_the_same(tmp_path_factory: pytest.TempPathFactory, mark: DurableMark) -> None:
    directory = tmp_path_factory.getbasetemp()
    write_mark(directory, mark)
    assert read_mark(directory) == mark
    assert (directory / FILE_NAME).stat().st_size == 40


def test_it_is_replaced_and_leaves_nothing_beside(tmp_path: Path) -> None:
    for sequence in (1, 2):
        write_mark(tmp_path, DurableMark(sequence))
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert read_mark(tmp_path) == DurableMark(2)


def test_a_write_that_was_cut_off_leaves_the_last_mark(tmp_path: Path) -> None:
    write_mark(tmp_path, DurableMark(1))
    (tmp_path / f"{FILE_NAME}.tmp").write_bytes(DurableMark(2).encoded()[:9])
    assert read_mark(tmp_path) == DurableMark(1)


@pytest.mark.parametrize("bit", range(0, 320, 7))
def test_no_flipped_bit_is_believed(tmp_path: Path, bit: int) -> None:
    data = bytearray(DurableMark(258, 5, 7, 9).encoded())
    data[bit // 8] ^= 1 << bit % 8
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(StoreCorruptedError, match="mark"):
        read_mark(tmp_path)


@pytest.mark.parametrize("data", [b"", DurableMark(1).encoded()[:-1], DurableMark(1).encoded() + b"\x00"])
def test_no_other_length_is_believed(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(StoreCorruptedError):
        read_mark(tmp_path)


def test_a_store_without_a_mark_has_none(tmp_path: Path) -> None:
    assert read_mark(tmp_path) is None


def test_what_was_appended_since_is_no_damage(directory: Path) -> None:
    mark = observed_mark(directory, 7)
    check_whole(directory, mark)
    (directory / "MANIFEST-000005").write_bytes(MANIFEST + b" and more")
    check_whole(directory, mark)


def test_a_later_manifest_is_no_damage(directory: Path) -> None:
    mark = observed_mark(directory, 7)
    (directory / "CURRENT").write_text("MANIFEST-000006\n")
    (directory / "MANIFEST-000006").write_bytes(b"new")
    check_whole(directory, mark)


def test_a_mark_from_before_the_first_open_covers_nothing(tmp_path: Path) -> None:
    check_whole(tmp_path, DurableMark(0))


@pytest.mark.parametrize("manifest", [MANIFEST[:-1], b"", MANIFEST[:-1] + b"X", b"X" + MANIFEST[1:] + b"appended"])
def test_a_cut_or_changed_manifest_is_damage(directory: Path, manifest: bytes) -> None:
    mark = observed_mark(directory, 7)
    (directory / "MANIFEST-000005").write_bytes(manifest)
    with pytest.raises(StoreCorruptedError, match="set it aside"):
        check_whole(directory, mark)


def test_an_older_manifest_is_damage(directory: Path) -> None:
    mark = observed_mark(directory, 7)
    (directory / "CURRENT").write_text("MANIFEST-000004\n")
    (directory / "MANIFEST-000004").write_bytes(MANIFEST)
    with pytest.raises(StoreCorruptedError, match="cut"):
        check_whole(directory, mark)


@pytest.mark.parametrize("current", [None, b"", b"garbage", b"MANIFEST-xyz", b"\xff\xfe", b"MANIFEST-000005x"])
def test_without_the_pointer_to_it_the_manifest_is_lost(directory: Path, current: bytes | None) -> None:
    mark = observed_mark(directory, 7)
    if current is None:
        (directory / "CURRENT").unlink()
    else:
        (directory / "CURRENT").write_bytes(current)
    with pytest.raises(StoreCorruptedError, match="lost its manifest"):
        check_whole(directory, mark)


def test_a_manifest_that_is_gone_is_damage(directory: Path) -> None:
    mark = observed_mark(directory, 7)
    (directory / "MANIFEST-000005").unlink()
    with pytest.raises(StoreCorruptedError, match="lost its manifest"):
        check_whole(directory, mark)
