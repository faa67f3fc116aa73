"""Defects that a rule sees in the graph: decided once, in the code plan.

``w<number>_<target>_<words>.py``; the target is ``any``, ``cpu``, ``gpu``, ``gfx9`` or an
architecture, so that those of other targets need not be imported.
"""
