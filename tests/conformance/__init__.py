"""Store and topology cases as data, run on every backend and in the test driver: `python -m tests.conformance FILE`.

A case file holds one JSON object a line; each names a store kind and the operations to run, where the last element of
a reading operation is the expected result. `adapters/` has one module per store kind.
"""
