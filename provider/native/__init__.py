"""Libraries in C whose functions are Python: their files, and what C calls in them."""
