"""Membership and assignment: signed heartbeats on a compacted topic, and pure functions of them.

There is no coordinator. Every node reads the same heartbeats and computes the same assignment from them.
"""
