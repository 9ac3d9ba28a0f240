"""What stands before every route: limits, authentication, places for connections, counts of refusals."""
