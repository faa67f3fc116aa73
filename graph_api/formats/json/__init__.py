# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's graph JSON: a reader of every era and a writer of the newest format."""
