"""Plain text, independent of an index: sentence spans, parts of speech, kinds of text, quotes."""
