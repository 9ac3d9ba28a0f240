"""Commands of the state library: ask nodes, watch them, run one. Heavy imports wait until a command needs them."""
