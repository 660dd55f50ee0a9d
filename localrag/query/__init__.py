"""Questions to an index."""
