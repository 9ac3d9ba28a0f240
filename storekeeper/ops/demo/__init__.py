"""`storekeeper demo`: the whole platform on real purchases, checked against a recomputation from the input alone."""
