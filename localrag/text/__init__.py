"""Plain text, without any notion of a project: sentences with offsets, parts of speech, kinds of text, quotes."""
