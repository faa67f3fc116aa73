# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fields of encoded instructions to operands and modifiers: one module for each class."""
