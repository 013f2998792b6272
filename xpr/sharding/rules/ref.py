"""References: none is left when a program is partitioned (`xpr/interpreters/references.py`)."""
