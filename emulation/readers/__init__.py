"""Fields of encoded instructions to operands and modifiers: one module for each class."""
