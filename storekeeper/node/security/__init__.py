"""Who may ask what: the cluster's secret, tokens, signed requests between nodes, addresses that a node may call."""
