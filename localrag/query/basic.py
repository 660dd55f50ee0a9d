"""basic: the passages nearest the question, no graph."""

from localrag.llm.project import Project
from localrag.query.cite import Draft, Point
from localrag.query.context import Question, best_quotes, chunk_quotes, pack
from localrag.query.retrieve import nearest_chunks
from localrag.query.write import write_prose
from localrag.records import Quote
from localrag.text import squeeze

K = 10
SENTENCES = 5
BUDGET = 2400  # tokens of passages in a prompt


async def ask_basic(question: Question, project: Project) -> Draft:
    """Answer from the nearest chunks."""
    chunks = nearest_chunks(question.text, question.vector, project, K)
    if not chunks:
        return Draft((), "No passage of the index fits this question.")
    if question.style == "extractive":
        quotes = best_quotes(question, chunk_quotes(chunks[:5]), project, SENTENCES)
        return Draft(tuple(Point(squeeze(q.text), (q,)) for q in quotes))
    kept = pack(chunks, lambda c: c.tokens, BUDGET)
    sources = [(squeeze(c.text), (Quote(c.id, c.start, c.end, c.text),)) for c in kept]
    return Draft(tuple(await write_prose(question, project, sources, "answer")))
