"""Models at hand: what a file is, which there are on this machine, which are worth getting, and the one command that downloads."""
