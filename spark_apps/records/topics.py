"""The topics of the tills, which several of their apps read or write."""

from __future__ import annotations

POS = "pos"
"""Invoices."""
SHIPMENT = "shipment"
"""Home deliveries."""
LOYALTY = "loyalty"
"""Loyalty notifications."""
HADOOP_SINK = "hadoop-sink"
"""Masked line items."""
