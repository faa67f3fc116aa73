"""File formats of operation graphs: hipDNN's JSON and its FlatBuffers."""
