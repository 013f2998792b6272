"""IREE's compiler: its C interface, and what is changed in the programs that it works on."""
