"""hipDNN's wire format: FlatBuffers of operation graphs, engines, knobs and plans, in two eras."""
