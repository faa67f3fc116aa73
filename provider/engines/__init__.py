"""The engines, one file each; ``provider.registry`` is the table."""
