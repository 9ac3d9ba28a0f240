"""Aliases as they travel, and which of two counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.node.cluster.aliases import Alias, AliasError, newest, opened_alias, signature_of

SECRET = b"s" * 32
OLD, NEW = "pos-rewards-changelog", "pos-rewards-g2-changelog"
ALIAS = Alias("rewards", 2, NEW, OLD, 7, topic_id="AbC")


def test_what_is_signed_is_read_back() -> None:
    for alias in (ALIAS, replace(ALIAS, prepare=True), replace(ALIAS, previous_topic=None)):
        value = alias.encode()
        assert opened_alias(SECRET, b"rewards", value, signature_of(SECRET, value)) == alias


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        (b"rewards", ALIAS.encode(), b"another cluster's secret, as long"),
        (b"players", ALIAS.encode(), SECRET),
        (None, ALIAS.encode(), SECRET),
        (b"rewards", b"", SECRET),
        (b"rewards", b"[]", SECRET),
        (b"rewards", b"{}", SECRET),
        (b"rewards", ALIAS.encode().replace(b'"pos', b'"../pos', 1), SECRET),
        (b"rewards", ALIAS.encode().replace(b":2,", b":0,"), SECRET),
        (b"rewards", ALIAS.encode().replace(b":2,", b":true,"), SECRET),
        (b"rewards", ALIAS.encode().replace(OLD.encode(), NEW.encode()), SECRET),
        (b"rewards", b'{"store":"rewards",' + b" " * 65536 + ALIAS.encode()[1:], SECRET),
    ],
)
def test_what_is_no_alias_of_this_cluster_is_refused(key: bytes | None, value: bytes, secret: bytes) -> None:
    with pytest.raises(AliasError):
        opened_alias(SECRET, key, value, signature_of(secret, value))


def test_a_changed_alias_is_refused() -> None:
    value = ALIAS.encode()
    signature = signature_of(SECRET, value)
    with pytest.raises(AliasError):
        opened_alias(SECRET, b"rewards", value.replace(b":2,", b":3,"), signature)
    with pytest.raises(AliasError):
        opened_alias(SECRET, b"rewards", value, None)


def test_a_topic_is_prepared_while_the_one_before_serves() -> None:
    preparing = replace(ALIAS, prepare=True)
    assert (preparing.serving_topic, preparing.warm_topic) == (OLD, NEW)
    assert (ALIAS.serving_topic, ALIAS.warm_topic) == (NEW, OLD)
    with pytest.raises(AliasError):
        replace(preparing, previous_topic=None)


def test_the_alias_that_was_decided_last_counts() -> None:
    known = newest({}, ALIAS)
    earlier = replace(ALIAS, topic=OLD, previous_topic=NEW, at_ms=6)
    assert newest(known, earlier) == {"rewards": ALIAS}
    later = replace(earlier, at_ms=8)
    assert newest(known, later) == {"rewards": later}
