"""The tests mirror the packages; contract, model, fault and integration suites stand beside them."""
