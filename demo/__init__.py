"""`python -m demo`: the project on real purchases, checked against a recomputation from the input alone."""
