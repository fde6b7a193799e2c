"""The way of a call: from a function and its arguments to the program that answers it."""
