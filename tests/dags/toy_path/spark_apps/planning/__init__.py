"""A plan that always fits."""
