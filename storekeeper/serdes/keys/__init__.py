"""Key layouts: how windows, sessions and versions become bytes that sort in the order that queries need."""
