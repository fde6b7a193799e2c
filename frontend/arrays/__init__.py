"""Arrays as values: their type, arrays of keys, shapes without values, where arrays lie, and operands of functions."""
