# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Libraries in C whose functions are Python: their files, and what C calls in them."""
