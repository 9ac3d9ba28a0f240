"""The documentation's code runs, and its figures are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.expiry_index import stamped
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb_options import MIB, TUNING

DOCS = (Path(__file__).parents[2] / "docs" / "reference" / "stores.md").read_text(encoding="utf-8")


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    exec(compile(code, "docs/reference/stores.md", "exec"), {})  # noqa: S102 (our own documentation)


@pytest.mark.parametrize("profile", list(TUNING))
def test_profiles_are_as_documented(profile: Profile) -> None:
    tuning = TUNING[profile]
    sizes = f"{tuning.write_buffer_bytes // MIB} MiB x {tuning.write_buffers}"
    assert f"| `{profile}` | {sizes} | {tuning.level_zero_files} |" in DOCS


def test_overheads_are_as_documented() -> None:
    segment = len((1).to_bytes(8, "big"))
    documented = dict(re.findall(r"^\| (\w[\w ]*) \| (\d+)", DOCS, re.MULTILINE))
    assert int(documented["window"]) == segment + len(window_row_key(b"k", 1)) - 1
    assert int(documented["session"]) == segment + len(session_row_key(b"k", 1, 2)) - 1
    assert int(documented["versioned"]) == len(b"d") + len(version_row_key(b"k", 1)) - 1 + 1
    assert int(documented["TTL"]) == len(b"d") + len(stamped(b"", 1, 1))
