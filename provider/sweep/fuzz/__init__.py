"""Random valid graphs as cases of a sweep."""
