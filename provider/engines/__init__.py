# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engines, one file each; ``provider.registry`` is the table."""
