"""One module per group of commands: each command parses options, makes one call, and prints the result."""
