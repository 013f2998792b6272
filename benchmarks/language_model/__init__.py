"""The language model of the examples beside llama.cpp, with the same random weights."""
