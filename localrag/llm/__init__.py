"""Asking a chat model: prompts, grammars, budgets, committed answers."""
