"""RocksDB gives its statistics as text: here it becomes numbers.

A line of the text is `rocksdb.block.cache.hit COUNT : 123`, or for a histogram
`rocksdb.db.get.micros P50 : 1.0 P95 : 2.0 ... COUNT : 5 SUM : 7`, which is left out.
"""

from __future__ import annotations

import re

_TICKER = re.compile(r"^(rocksdb\.[\w.\-]+) COUNT : (\d+)$", re.MULTILINE)


def tickers(text: str) -> dict[str, int]:
    """The counters in RocksDB's statistics by name; histograms and lines of other forms are left out."""
    return {name: int(value) for name, value in _TICKER.findall(text)}
