"""What goes out of an index for other programs, and what comes in."""
