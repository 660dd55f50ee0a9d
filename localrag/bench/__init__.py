"""Measuring models and the engine."""
