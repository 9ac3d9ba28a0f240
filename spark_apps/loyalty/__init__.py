"""App `loyalty`: running totals of points per customer, as notifications and as the store `rewards`."""
