"""Extraction of entities, relationships and claims from chunks (paper, section 3.1.2)."""
