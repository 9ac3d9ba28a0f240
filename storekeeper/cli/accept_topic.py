"""`storekeeper accept-topic`: the topic that a store's changelog is now, is the right one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from storekeeper.cli.output import say
from storekeeper.clock import SystemClock


def accept_topic(
    store: Annotated[str, typer.Argument(help="The store's name.")],
) -> None:
    """Take a store's recreated changelog for the right one.

    Nodes keep the rows of a changelog that was deleted, and answer from them or with 503, as they may be the last copy.
    After this command they drop these rows and read the topic that has the name now. Make it first with
    `storekeeper create-topics`, if need be.

    Example: storekeeper accept-topic rewards
    """
    from storekeeper.errors import ConfigurationError, UnknownStoreError  # noqa: PLC0415
    from storekeeper.node.cluster.alias_topic import publish_alias, read_aliases, topic_id_of  # noqa: PLC0415 (loads Kafka's client)
    from storekeeper.node.cluster.aliases import Alias  # noqa: PLC0415
    from storekeeper.node.security.cluster_secret import load_cluster_secret  # noqa: PLC0415
    from storekeeper.node.settings import load_node_settings  # noqa: PLC0415

    settings, now_ms = load_node_settings(), SystemClock().now_ms()
    if store not in settings.definitions:
        msg = f"there is no store {store[:140]!r}: name one of {', '.join(settings.definitions) or 'none'}"
        raise UnknownStoreError(msg)
    secret = load_cluster_secret(settings.cluster_secret_path)
    known = read_aliases(settings.kafka, secret).get(store)
    alias = Alias(store, 1, settings.definitions[store].topic, None, now_ms) if known is None else known
    topic_id = topic_id_of(settings.kafka, alias.topic)
    if topic_id is None:
        msg = f"there is no topic {alias.topic}: make it with `storekeeper create-topics`, then accept it"
        raise ConfigurationError(msg)
    publish_alias(settings.kafka, secret, replace(alias, at_ms=now_ms))
    say(f"nodes read {store} from {alias.topic} as it is now (id {topic_id})")
