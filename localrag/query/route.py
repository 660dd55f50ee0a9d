"""auto: which mode a question asks for, and why, in one sentence."""

from localrag.project import Project
from localrag.query.questions.whole import about_everything, first_word
from localrag.query.retrieval.retrieve import named_entities
from localrag.store import graph


def route(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for the whole, `mix` for particulars."""
    if word := about_everything(question):
        return "global", f"“{word}” asks about the documents as a whole"
    named = named_entities(question, project)
    if not named:
        return "mix", "it asks for something particular"
    word = first_word(question, "BROAD")
    first = graph.entities(project.db, [named[0].entity_id])
    if word and first and first[0].type != "thing":
        return "local", f"“{word}” asks broadly, but of {named[0].text}"
    return "mix", f"it names {', '.join(dict.fromkeys(n.text for n in named[:3]))}"
