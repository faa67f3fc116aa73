"""A graph split at op boundaries over several engines, with buffers of its own in between."""
