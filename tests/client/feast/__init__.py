"""The mapping of features to stores, without Feast."""
