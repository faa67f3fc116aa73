"""Defects that a rule sees in the graph: decided once, in the code plan."""
