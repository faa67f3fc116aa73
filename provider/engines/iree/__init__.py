"""The IREE engine and its plans."""
