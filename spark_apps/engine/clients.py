"""Kafka clients that a worker process caches."""

from __future__ import annotations

from functools import lru_cache

from confluent_kafka import Consumer

from state.changelog.log_bounds import offset_client
from state.kafka_clients import CONNECT_AT_ONCE


@lru_cache(maxsize=2)
def asking_client(bootstrap: str) -> Consumer:
    """A client for offset requests. Cached, because a new one sends requests before it is connected."""
    return offset_client(bootstrap, more=CONNECT_AT_ONCE)
