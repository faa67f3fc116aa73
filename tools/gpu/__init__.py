"""Checks on a real device: every way to call a plan, and all sample problems."""
