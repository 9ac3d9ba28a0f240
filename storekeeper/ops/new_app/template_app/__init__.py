"""App `template_app`: the totals of each key."""
