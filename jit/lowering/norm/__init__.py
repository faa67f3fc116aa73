"""Batch, layer and RMS normalisation and their gradients."""
