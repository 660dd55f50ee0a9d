"""Models: what a file is, which are on this machine, which are recommended, and their download."""
