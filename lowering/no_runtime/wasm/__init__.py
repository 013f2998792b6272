"""WebAssembly: modules read, linked and written."""
