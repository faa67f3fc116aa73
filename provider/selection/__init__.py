"""How one of several engines is chosen: policies as data, measured times, and their store."""
