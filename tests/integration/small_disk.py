"""A disk that a test can fill."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 GiB, hardly any of which is taken from the disk below."""
    image, mounted = folder / "disk.img", folder / "disk"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(4 << 30)
    made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], capture_output=True, check=False)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], capture_output=True, check=False)
    if made.returncode or done.returncode:
        pytest.skip("mounting a file system in a file needs root and a loop device")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


def fill(disk: Path, but_for: int = 0) -> Path:
    """Takes all room of a disk but for some bytes, by a file to be removed."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        taken, size = 0, shutil.disk_usage(disk).free - but_for
        while size >= 4096:
            try:
                os.posix_fallocate(file.fileno(), taken, size)
            except OSError:  # the file system needs some of it for itself
                size //= 2
            else:
                taken += size
                size = min(size, shutil.disk_usage(disk).free - but_for)
    return filler
