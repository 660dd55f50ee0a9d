"""The only imports of llama_cpp: chat models, embedding models, GGUF files."""
