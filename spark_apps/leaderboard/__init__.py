"""App `leaderboard`: what each player has achieved, ranked by the best score."""
