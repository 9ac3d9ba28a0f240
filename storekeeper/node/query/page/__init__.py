"""The page at `/`: the cluster as a live picture, and a box to ask it. Static files and the routes that serve them."""
