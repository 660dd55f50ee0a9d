"""Communities → reports (paper, section 3.1.5)."""
