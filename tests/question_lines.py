"""A grammar of tests: lines of one question each."""

from localrag.llm.grammar import distinct_lines


def question_lines(n_lines):
    """Exactly so many lines of one question each."""
    return distinct_lines(r"[^\s\-*#][^\n]{8,140}[?？]", n_lines, n_lines)
