# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Grouped matrix multiplications of mixtures of experts."""
