"""One module a group of commands: parse, one call, render."""
