"""The demo corpus: seventeen documents of an invented harbour town, two of them in Chinese."""

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
QUESTIONS = (
    ("global", "What are the main themes?"),
    ("local", "How much was Hugh Dunmore fined, and for what?"),
)
