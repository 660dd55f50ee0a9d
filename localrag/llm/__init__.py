"""Calls to a chat model: prompts, grammars, token budgets, and the LLM cache."""
