"""What the IREE engine really does with the sample problems: declined, compiled, run, emulated.

For scripts (``scripts/emulate``, ``scripts/compile_matrix``) and the page made from their
records; nothing that serves a graph imports this.
"""
