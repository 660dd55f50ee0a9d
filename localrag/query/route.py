"""auto: which mode a question asks for, and why, in one sentence."""

from localrag.llm.budgets import LEAST
from localrag.project import Project
from localrag.query.questions.whole import about_everything, first_word
from localrag.query.retrieval.retrieve import named_entities
from localrag.store import graph
from localrag.store.selection import Selected


def route(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for the whole, `mix` for particulars.

    One short document is answered from its passages (`ts`): reports would divide what it says by names that others have in common with it.
    From two documents on their reports, narrowed to them, quote more of the documents: of two to six of the demo's 196 of 270, `ts` 103.
    """
    if word := about_everything(question):
        if isinstance(project.db, Selected):
            counts = graph.counts(project.db, ["documents", "chunks"])
            if counts["documents"] == 1 and counts["chunks"] <= LEAST.passages:
                return "ts", f"“{word}” asks about the whole of one short document"
        return "global", f"“{word}” asks about the documents as a whole"
    named = named_entities(question, project)
    if not named:
        return "mix", "it asks for something particular"
    word = first_word(question, "BROAD")
    first = graph.entities(project.db, [named[0].entity_id])
    if word and first and first[0].type != "thing":
        return "local", f"“{word}” asks broadly, but of {named[0].text}"
    return "mix", f"it names {', '.join(dict.fromkeys(n.text for n in named[:3]))}"
