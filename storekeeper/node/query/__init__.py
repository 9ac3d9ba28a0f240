"""A node answers queries about stores over HTTP.

The way of a read of one key, in the order of its modules:

1. `http/connection.py` takes the bytes and offers them to the guard.
2. `protection/guard.py` checks the header lines (`storekeeper/node/security/access.py`), and `reads/hot.py` answers at
   once if the row is here. If not, the request goes through uvicorn's parser to the guard again, which checks all of
   it.
3. `reads/point.py` finds the partition and its holders (`storekeeper/node/cluster/catalog.py`), and decides who
   answers.
4. `forwarding.py` asks another node, signed (`storekeeper/node/security/hop.py`), at a checked address
   (`storekeeper/node/peer_address.py`). There the request takes the same way, and is not sent on.
5. The node that has the row reads it (`storekeeper/node/replicas/replica_rows.py`) and writes the headers that say how
   fresh it is (`answers/origins.py`).
"""
