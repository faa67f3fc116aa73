"""hipDNN's graph JSON: a reader of every era and a writer of the newest format."""
