"""What becomes of the local stores of a dead app: they are lost, swapped, set back or damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path


class Harm(StrEnum):
    """One kind of harm."""

    DELETED = "deleted"
    SWAPPED = "swapped"
    SET_BACK = "set back to an older copy"
    DAMAGED = "damaged"


class Stores:
    """The local stores of the tasks of one sub-topology: a folder with one folder for each partition.

    No process may have any of them open while they are harmed.
    """

    def __init__(self, folder: Path, copies: Path, rng: random.Random) -> None:
        self._folder = folder
        self._copies = copies
        self._rng = rng
        self._ways: dict[Harm, Callable[[list[Path]], bool]] = {
            Harm.DELETED: self._delete,
            Harm.SWAPPED: self._swap,
            Harm.SET_BACK: self._set_back,
            Harm.DAMAGED: self._damage,
        }

    def harm(self, kind: Harm) -> bool:
        """Harms two of the stores or all of them; whether that could be done."""
        partitions = self._partitions
        if len(partitions) < 2:
            return False
        count = self._rng.choice((2, len(partitions)))
        return self._ways[kind](self._rng.sample(partitions, count))

    @property
    def _partitions(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]")) if self._folder.is_dir() else []

    def keep(self) -> None:
        """Keeps a copy of each store until it is used: by then the store has gone on."""
        for partition in self._partitions:
            copy = self._copies / partition.name
            if not copy.exists():
                shutil.copytree(partition, copy)

    def _delete(self, partitions: list[Path]) -> bool:
        for partition in partitions:
            shutil.rmtree(partition)
        return True

    def _swap(self, partitions: list[Path]) -> bool:
        one, other = partitions[:2]
        aside = self._folder / "aside"
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
        return True

    def _set_back(self, partitions: list[Path]) -> bool:
        done = False
        for partition in partitions:
            copy = self._copies / partition.name
            if copy.exists():
                shutil.rmtree(partition)
                copy.rename(partition)
                done = True
        return done

    def _damage(self, partitions: list[Path]) -> bool:
        """Spoils one file of each store: cut, gone, or with other bytes somewhere."""
        for partition in partitions:
            file = self._rng.choice(sorted(file for file in partition.glob("*/*") if file.stat().st_size))
            way = self._rng.randrange(3)
            data = bytearray(file.read_bytes())
            place = self._rng.randrange(len(data))
            if way == 0:
                file.unlink()
            elif way == 1:
                file.write_bytes(data[:place])
            else:
                data[place] ^= 0xFF
                file.write_bytes(data)
        return True
