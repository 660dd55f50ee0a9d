"""Dates in texts: found, resolved, reckoned from others."""
