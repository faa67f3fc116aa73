"""Block-scaled quantisation."""
