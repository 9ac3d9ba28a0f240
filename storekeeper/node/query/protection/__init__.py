"""What stands before every route: limits, authentication, counts of refusals."""
