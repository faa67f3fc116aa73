"""Scaled dot-product attention and its gradient."""
