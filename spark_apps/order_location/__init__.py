"""App `order_location`: where every order is that is on its way."""
