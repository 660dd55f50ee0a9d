"""Evaluation of localrag against annotated data."""
