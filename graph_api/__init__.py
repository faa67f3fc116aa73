"""The pure model of an operation graph: standard library only."""
