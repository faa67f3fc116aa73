"""The engines, one file each; ``provider.manifest`` is the table."""
