"""Engines of others: hipDNN engine plugins through their C interface, and hipDNN itself.

=========== ======================================================================
module      holds
=========== ======================================================================
rules       what a plugin has to obey, by number
calls       the C interface of one plugin: loading, answers checked before use
found       which files there are, and the table of engines that they give
probe       asking a plugin in a process of its own; what it said is remembered
child       the program of that process
report      what is asked of that process, and what it answers
sink        from a plugin's log to Python's
places      host memory or a GPU's: what pointers a plugin is given
buffers     from a caller's buffers to the array of uids and pointers
wire_engine what engines of others share: answers to graphs, building
plan        plans of others: a session, and calls of it on buffers
engine      an engine of a plugin, as any other engine
knobs       from hipDNN's knobs to those of engines
hipdnn      the C interface of hipDNN's backend: descriptors
backend     hipDNN itself as an engine, through ``libhipdnn_backend.so``
=========== ======================================================================

Nothing is loaded, and no file is looked at, before somebody asks for an engine that is not built
in.
"""
