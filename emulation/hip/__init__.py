"""A HIP library whose GPUs are emulated: `native/hip.c`, and what executes kernels for it."""
