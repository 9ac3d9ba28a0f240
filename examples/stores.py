"""The stores of an app: rows on disk, in memory with a bound, or on Redis. Runs without Kafka and Spark."""

from storekeeper import KeyValueStore, ProcessorContext, Store, StreamsBuilder, TopologyTestDriver

POINTS = Store("points", int)  # RocksDB; backend="redis" puts the rows where other programs read them
LAST = Store("last-cards", str, backend="memory", max_rows=2)  # the cards that were used last


class AddPoints:
    """Adds the points of each card, and remembers the till that it was last used at."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Gets the stores."""
        self.context = context
        self.points: KeyValueStore[str, int] = context.store(POINTS)
        self.last: KeyValueStore[str, str] = context.store(LAST)

    def process(self, card: str, points: int, timestamp_ms: int) -> None:
        """Handles a record."""
        self.points.put(card, (self.points.get(card) or 0) + points)
        self.last.put(card, f"till-{points % 3}")


streams = StreamsBuilder("example")
streams.add_store(POINTS)
streams.add_store(LAST)
streams.stream("earned", int).process_values(AddPoints, stores=[POINTS, LAST], values=int)

driver = TopologyTestDriver(streams.build())
for card, points in (("card-1", 10), ("card-2", 7), ("card-10", 3), ("card-2", 1)):
    driver.pipe("earned", card, points)
with driver.store("points").prefix_scan("card-1") as rows:
    print("begin with card-1:", list(rows))
print("used last:", driver.rows("last-cards"))
print("the changelog says so:", driver.changelog("last-cards")[-1])
