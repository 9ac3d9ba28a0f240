"""App `pos_fanout`: every invoice becomes a shipment order, masked line items, or a dead letter, in one pass."""
