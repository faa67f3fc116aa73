"""Attacks on the whole, bounded by time: what must survive them, survives (docs/guarantees.md)."""
