"""A model behind OpenAI-compatible servers instead of one in this process."""
