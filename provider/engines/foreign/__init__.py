# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Third-party engines: hipDNN engine plugins through their C interface, and hipDNN itself.

================ ==================================================================
module           holds
================ ==================================================================
foreign_rules    the rules for plugins, by number
plugin_calls     the C interface of one plugin: loading it, checking its answers
discovery        which files there are, and the engines that they give
probe            querying a plugin in a separate process; its answers are cached
probe_child      the program of that process
probe_report     the questions to that process, and its answers
log_sink         from a plugin's log to Python's
places           host memory or a GPU's: the pointers that a plugin is given
foreign_buffers  from a caller's buffers to the array of uids and pointers
wire_engine      the common part of third-party engines: answers, building
foreign_plan     their plans: a session, and its calls on buffers
plugin_engine    an engine of a plugin
foreign_knobs    from hipDNN's knobs to those of engines
hipdnn_backend   the C interface of hipDNN's backend: descriptors
backend_engine   hipDNN itself as an engine, through ``libhipdnn_backend.so``
================ ==================================================================

Nothing is loaded, and no file is searched, before somebody asks for an engine that is not built in.
"""
