"""Continuous batching over llama.cpp, and the embedder."""
