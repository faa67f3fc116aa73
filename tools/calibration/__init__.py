# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How estimates of strategies are fitted to measured times."""
