"""Writes a compacted topic into a hash on Redis: `python -m benchmarks.redis_consumer BOOTSTRAP TOPIC PORT`.

What the third way of keeping locations needs beside the server. It says nothing of how far it is.
"""

from __future__ import annotations

import sys

import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

_BATCH = 5000


def follow(bootstrap: str, topic: str, port: int) -> None:
    """Goes on until it is killed."""
    server = redis.Redis(host="127.0.0.1", port=port)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "redis", "fetch.wait.max.ms": 10})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    while True:
        messages = consumer.consume(_BATCH, timeout=0.005)
        if not messages:
            continue
        with server.pipeline(transaction=False) as pipeline:
            for message in messages:
                if message.value() is None:
                    pipeline.hdel("orders", message.key())
                else:
                    pipeline.hset("orders", message.key(), message.value())
            pipeline.execute()


if __name__ == "__main__":
    follow(sys.argv[1], sys.argv[2], int(sys.argv[3]))
