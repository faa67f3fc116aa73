"""Grouped matrix multiplications of mixtures of experts."""
