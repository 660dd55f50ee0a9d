"""Models that give vectors, scores or states of tokens instead of text: embedders, rerankers, the tagger."""
