"""Programs as pictures: graphs of their equations."""
