"""Which passages bear on a question, which of their sentences answer it, and whether any does."""
