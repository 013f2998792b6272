"""Small libraries that show how to write such: optimizers and layers of neural networks."""
