"""What other programs made of documents, taken over so that nobody pays for it twice."""
