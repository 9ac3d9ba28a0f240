"""State stores: the contracts, the backends and the store kinds built on them."""
