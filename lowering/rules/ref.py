"""References: none is left when a program is lowered (`xpr/interpreters/references.py`)."""
