"""Chunk → Extraction: the entities, relationships and claims of one chunk (paper, section 3.1.2)."""
