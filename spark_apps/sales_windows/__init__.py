"""App `sales_windows`: what each store sold of each item, by the hour and in hopping windows."""
