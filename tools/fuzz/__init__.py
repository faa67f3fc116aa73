# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs, and what must hold for each of them."""
