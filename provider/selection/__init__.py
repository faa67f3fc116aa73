# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How one of several engines is chosen: policies as data, measured times, and their store."""
