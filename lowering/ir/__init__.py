"""A program as a graph of operations: built by lowering rules, printed once."""
