"""Defects that depend on what a lowering emits: it asks by number (`workarounds.strikes`)."""
