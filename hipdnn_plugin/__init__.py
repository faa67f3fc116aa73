"""hipDNN's plugin interface: constants of its C ABI, wire format and the plugin itself."""
