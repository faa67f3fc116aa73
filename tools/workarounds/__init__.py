"""Known compiler defects: what a folder says, and whether the installed compiler has them."""
