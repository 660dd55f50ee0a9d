"""Benchmarks of models and of the engine."""
