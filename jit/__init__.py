"""Lowering, compiling, caching and running of operation graphs."""
