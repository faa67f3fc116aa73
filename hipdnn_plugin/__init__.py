# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's plugin interface: constants of its C ABI, wire format and the plugin itself."""
