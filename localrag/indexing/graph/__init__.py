"""The graph: entities, relationships, weights and communities from extractions, updated incrementally (paper, sections 3.1.3 and 3.1.4)."""
