"""Answering questions: retrieval, the query modes, and answers with verified citations."""
