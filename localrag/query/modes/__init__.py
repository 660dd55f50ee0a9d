"""The ways to answer: from passages, from the neighbourhood of entities, by map-reduce over reports, and DRIFT."""
