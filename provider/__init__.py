"""Engines, selection, verification and the command line."""
