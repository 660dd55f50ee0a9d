"""auto: which mode a question asks for, and why, in one sentence; decided by rules that can be read."""

import re

from localrag.llm.project import Project
from localrag.query.retrieve import named_entities
from localrag.store import graph

_GENERAL = re.compile(
    r"\b(?:themes?|topics?|overall|overview|in general|summari[sz]e|summary|main (?:points?|ideas?|issues?|questions?|concerns?|conflicts?)"
    r"|trends?|across|most (?:important|common|frequent)|everything|(?:all(?: the)?|these) (?:documents|texts|files|notes)"
    r"|(?:is|are) (?:this|these|it|they|the (?:documents?|files?|notes|book|texts?|corpus)) about|patterns?|takeaways?)\b"
    r"|主题|总结|概括|概述|总体|整体|主要(?:内容|问题|观点|冲突)|哪些(?:方面|话题)|大意",
    re.IGNORECASE,
)


def route(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for the whole, `mix` for particulars."""
    if word := _GENERAL.search(question):
        named = named_entities(question, project)
        if not named:
            return "global", f"“{word.group()}” asks about the documents as a whole"
        first = graph.entities(project.db, [named[0].entity_id])
        if first and first[0].type == "thing":
            return "global", f"“{word.group()}” asks about the documents as a whole"
        return "local", f"“{word.group()}” asks broadly, but of {named[0].text}"
    if named := named_entities(question, project):
        return "mix", f"it names {', '.join(dict.fromkeys(n.text for n in named[:3]))}"
    return "mix", "it asks for something particular"
