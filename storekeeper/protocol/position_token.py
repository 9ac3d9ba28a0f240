"""A position token: the positions that a caller has seen or written, as a requirement of a later answer.

An answer carries the token of the changelog positions that it shows. A producer makes one from the record that it
wrote. If a read has it as `position=`, only a replica that has applied all of it answers. So reads never go back in
time, and a producer reads its own writes.

Two forms are read. The opaque one is base64url, without padding, of canonical JSON:
`{"c":{"pos-rewards-changelog":{"0":1200}},"s":{"pos":{"0":1235}},"v":1}`: next offsets of changelogs and sources.
The readable one names source records, `topic:partition:offset`, several separated by commas: `pos:0:1234`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import orjson

from storekeeper.changelog.position import Position
from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.names import checked_name

MAX_TOKEN_CHARS = 8192
MAX_TOKEN_PARTITIONS = 256
_MAX_NUMBER_DIGITS = 18
_VERSION = 1
_FIELDS = {"c", "s", "v"}


@dataclass(frozen=True, slots=True)
class PositionToken:
    """The positions that an answer must include at least. For a partition that is not named, nothing is required. Next
    offsets by topic and partition: of changelogs, and of the apps' input (`source`).
    """

    changelog: Position = field(default_factory=Position)
    source: Position = field(default_factory=Position)

    @classmethod
    def of_source(cls, topic: str, partition: int, offset: int) -> Self:
        """The token of one record that a producer wrote; `offset` is the offset of that record.

        Raises:
            InvalidArgumentError: if no such record can exist.
        """
        return cls(source=_position({topic: {str(partition): offset + 1}}))

    @classmethod
    def of_changelog(cls, topic: str, partition: int, next_offset: int) -> Self:
        """The token of one changelog partition: all below `next_offset` was shown. Raises as `of_source` does."""
        return cls(changelog=_position({topic: {str(partition): next_offset}}))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads either form.

        Raises:
            InvalidArgumentError: if it is neither, is too long, or is not canonical.
        """
        if len(text) > MAX_TOKEN_CHARS:
            raise InvalidArgumentError(f"the position has {len(text)} characters, over the limit of {MAX_TOKEN_CHARS}")
        return cls._readable(text) if ":" in text else cls._opaque(text)

    def merged(self, other: PositionToken) -> PositionToken:
        """The token that includes both: the later offset of each partition."""
        return PositionToken(self.changelog.merged(other.changelog), self.source.merged(other.source))

    @property
    def can_be_sent(self) -> bool:
        """Whether `parse` takes it: it names few enough partitions, and its text is short enough."""
        return _count(self.changelog, self.source) <= MAX_TOKEN_PARTITIONS and len(self.encode()) <= MAX_TOKEN_CHARS

    def encode(self) -> str:
        """The opaque form. Equal tokens give equal text."""
        fields = {"c": _as_json(self.changelog), "s": _as_json(self.source), "v": _VERSION}
        return base64.urlsafe_b64encode(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).rstrip(b"=").decode()

    @classmethod
    def _readable(cls, text: str) -> Self:
        # Counted before any is parsed, so that many of them cost the node little.
        _check_count(text.count(",") + 1)
        by_topic: dict[str, dict[str, int]] = {}
        for topic, partition, offset in map(_three, text.split(",")):
            offsets = by_topic.setdefault(topic, {})
            offsets[partition] = max(offset + 1, offsets.get(partition, 0))
        return cls(source=_position(by_topic))

    @classmethod
    def _opaque(cls, text: str) -> Self:
        try:
            if not text.isascii():
                raise ValueError("not ASCII")
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            fields = orjson.loads(data)
            if not isinstance(fields, dict) or fields.keys() != _FIELDS or fields["v"] != _VERSION:
                raise ValueError("other fields")
            token = cls(_position(fields["c"]), _position(fields["s"]))
        except (ValueError, binascii.Error, InvalidArgumentError) as error:
            raise InvalidArgumentError(
                "the position is not a token: give the header storekeeper-position of an answer, or "
                "topic:partition:offset"
            ) from error
        _check_count(_count(token.changelog, token.source))
        if token.encode() != text:
            raise InvalidArgumentError("the position is not canonical: pass the header storekeeper-position unchanged")
        return token


def _three(part: str) -> tuple[str, str, int]:
    pieces = part.split(":")
    if len(pieces) != 3 or not _number(pieces[1]) or not _number(pieces[2]):
        raise InvalidArgumentError(f"{part[:140]!r} is not of the form topic:partition:offset")
    return pieces[0], str(int(pieces[1])), int(pieces[2])


def _position(topics: object) -> Position:
    if not isinstance(topics, Mapping):
        raise InvalidArgumentError("a position maps topics to partitions")
    return Position({_topic(topic): _offsets(topic, partitions) for topic, partitions in topics.items()})


def _topic(topic: str) -> str:
    try:
        return checked_name(topic)
    except InvalidNameError as error:
        raise InvalidArgumentError(str(error)) from error


def _offsets(topic: str, partitions: object) -> dict[int, int]:
    if not isinstance(partitions, Mapping) or not partitions:
        raise InvalidArgumentError(f"a position maps the partitions of {topic[:140]!r} to offsets")
    offsets: dict[int, int] = {}
    for partition, offset in partitions.items():
        if not _number(partition) or type(offset) is not int or not 0 <= offset < 10**_MAX_NUMBER_DIGITS:
            raise InvalidArgumentError(f"{topic[:140]}-{str(partition)[:20]} can't be at offset {str(offset)[:20]}")
        offsets[int(partition)] = offset
    return offsets


def _number(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _MAX_NUMBER_DIGITS


def _count(*positions: Position) -> int:
    return sum(1 for position in positions for _ in position)


def _check_count(partitions: int) -> None:
    if partitions > MAX_TOKEN_PARTITIONS:
        msg = f"the position names {partitions} partitions, over the limit of {MAX_TOKEN_PARTITIONS}"
        raise InvalidArgumentError(msg)


def _as_json(position: Position) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = {}
    for topic, partition, offset in position:
        offsets.setdefault(topic, {})[str(partition)] = offset
    return offsets
