# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The IREE engine and its plans."""
