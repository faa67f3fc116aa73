# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Known compiler defects: what a folder says, and whether the installed compiler has them."""
