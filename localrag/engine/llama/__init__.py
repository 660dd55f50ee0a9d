"""llama.cpp: chat models, embedding models, GGUF files. Only this package imports llama_cpp."""
