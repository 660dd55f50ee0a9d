"""`localrag serve`: the index over HTTP on this machine, with a web page, an OpenAI-compatible API and MCP."""
