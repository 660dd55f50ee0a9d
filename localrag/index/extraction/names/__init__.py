"""Likely names in a text, found without a model, and where they stand."""
