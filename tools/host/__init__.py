"""A host of engine plugins in C, and its driver."""
