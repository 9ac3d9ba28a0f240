"""Expectations on the masked export and on stores, and the gate between checking and publishing."""
