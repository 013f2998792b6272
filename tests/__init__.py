"""Tests; the layout follows the package's."""
