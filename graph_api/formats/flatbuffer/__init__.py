# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's wire format: FlatBuffers of operation graphs, engines, knobs and plans, in two eras."""
