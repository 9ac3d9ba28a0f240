"""A store in ten lines: build it, use it, and find the rows again after the process is gone. Run it twice."""

from pathlib import Path

from storekeeper import InMemoryChangelog, JsonSerde, RocksDBSupplier, StoreBuilder, Utf8Serde

builder = (
    StoreBuilder("rewards", RocksDBSupplier(Path(".run/example"))).with_logging(InMemoryChangelog()).with_caching()
)
store = builder.key_value(Utf8Serde(), JsonSerde())
print("before:", store.get("card-1"))
store.put("card-1", {"points": 10})
store.put_all([("card-2", {"points": 7}), ("card-10", {"points": 3})])
with store.prefix_scan("card-1") as rows:
    print("begin with card-1:", list(rows))
store.close()
