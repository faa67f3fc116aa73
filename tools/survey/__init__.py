# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the IREE engine does with the sample problems: declined, compiled, run, emulated.

``trials`` are the cases, ``compilation``, ``emulation`` and ``decoding`` try one, ``pool`` works on
many, ``record`` keeps what is found; ``table`` and ``coverage`` make pages of it.
"""
