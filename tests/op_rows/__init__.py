"""The rows of the operation table: one or more for each primitive, in a file per family."""
