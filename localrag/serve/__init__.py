"""`localrag serve`: an index over HTTP, for this machine: an OpenAI-compatible API whose answers prove their sources."""
