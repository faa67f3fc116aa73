# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line ``hipdnn-iree``: one module per command, imported when it is called.

========== =====================================================================
module     holds
========== =====================================================================
main       entry point; works, and says what is missing, without click
app        the group of commands, and how errors become exit codes
exits      the table of exit codes
options    options that several commands share, one of them per knob
output     tables, JSON and progress; data on stdout, talk on stderr
files      graph files and ``.npz`` files, read and written
probes     facts about this machine, each of them guarded
========== =====================================================================

Nothing here imports NumPy or IREE before a command needs it.
"""
