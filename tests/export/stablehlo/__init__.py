"""Programs that other tools wrote, as exported functions."""
