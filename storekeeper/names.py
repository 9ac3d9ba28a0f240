"""Names of stores, apps and topics: one alphabet, checked before a name becomes a path or a topic.

Whatever belongs to an app begins with the app's name, and whatever belongs to the platform with that of its cluster:
topics, groups and transactional ids.
"""

from __future__ import annotations

import re

from storekeeper.errors import InvalidNameError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def checked_name(name: str) -> str:
    """Returns `name` unchanged if it may name a store, an app or a topic.

    Raises:
        InvalidNameError: if it doesn't match `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` as a whole.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidNameError(
            f"{name!r:.140} can't be a name: use 1 to 128 letters, digits, dots, underscores and hyphens, "
            "beginning with a letter or digit"
        )
    return name


def variant_name(store: str, topic: str) -> str:
    """The name of a store's rows in another topic than the configured one: `store@topic`."""
    return f"{checked_name(store)}@{checked_name(topic)}"


def store_of(variant: str) -> str:
    """The store that a variant's rows belong to; a store's own name names its first variant."""
    return variant.partition("@")[0]


def checked_variant(variant: str) -> str:
    """Returns `variant` unchanged if it is a store's name, or `store@topic`.

    Raises:
        InvalidNameError: if it is neither.
    """
    store, at, topic = variant.partition("@")
    checked_name(store)
    if at:
        checked_name(topic)
    return variant


def changelog_topic(app: str, store: str) -> str:
    """The changelog topic of a store: `<app>-<store>-changelog`, as Kafka Streams names it."""
    return f"{checked_name(app)}-{checked_name(store)}-changelog"


def markers_topic(app: str, generation: int, slot: str) -> str:
    """The topic of the markers of one sub-topology's tasks: `<app>-gen-<n>-<slot>-markers`."""
    return f"{app}-gen-{generation}-{slot}-markers"


def dead_letter_topic(app: str) -> str:
    """The topic for records that an app can't process, whichever topic they are from: `<app>-dlq`."""
    return f"{checked_name(app)}-dlq"


def cleanup_transaction(changelog: str) -> str:
    """The transactional id of the clean-ups of a changelog: `<changelog>-cleanup`."""
    return f"{changelog}-cleanup"


def members_topic(cluster: str) -> str:
    """The topic of the heartbeats of a cluster's nodes: `<cluster>-members`."""
    return f"{cluster}-members"


def aliases_topic(cluster: str) -> str:
    """The topic that says which changelog is behind each store of a cluster: `<cluster>-aliases`."""
    return f"{cluster}-aliases"


def node_group(cluster: str, node: str) -> str:
    """The group with the progress of a node: `<cluster>-node-<node>`."""
    return f"{cluster}-node-{node}"
