"""Extractions → Graph: entities, relationships, weights, communities (paper, sections 3.1.3 and 3.1.4)."""
