# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid graphs as cases of a sweep."""
