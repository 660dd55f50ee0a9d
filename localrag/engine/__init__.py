"""Inference engine: continuous batching over llama.cpp, model servers, embedders and rerankers."""
