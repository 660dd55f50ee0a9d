"""Measuring localrag against what people annotated."""
