# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Defects that a rule sees in the graph: decided once, in the code plan."""
