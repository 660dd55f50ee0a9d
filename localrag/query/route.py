"""auto: which mode a question asks for, and why, in one sentence; decided by rules that can be read."""

import re

from localrag.llm.project import Project
from localrag.query.retrieve import named_entities
from localrag.store import graph

_WHOLE = (
    r"(?:documents?|texts?|files?|notes?|books?|corpus|collection|archive|reports?|papers?|meetings?|story|novel|everything|all|it|this"
    r"|these|them)"
)
_GENERAL = re.compile(
    r"\b(?:themes?|topics?|overall|overview|in general|summari[sz]e|summary|trends?|across|most (?:important|common|frequent)|everything"
    r"|main (?:\w+ )?(?:points?|ideas?|issues?|questions?|concerns?|conflicts?)|(?:all(?: the)?|these) (?:documents|texts|files|notes)"
    rf"|(?:is|are) (?:they|(?:(?:this|these|the) )?{_WHOLE}) about|patterns?|takeaways?)\b"
    r"|主题|总结|概括|概述|总体|整体|主要(?:内容|问题|观点|冲突)|哪些(?:方面|话题)|大意",
    re.IGNORECASE,
)
# "Summarize the discussion on X" asks about X; "… of the whole book" about everything.
_THING = rf"(?!(?:[\w'’]+ ){{0,3}}{_WHOLE}\b)[\w'’]+"
_SUBJECT = re.compile(
    rf"\b(?:about|on|regarding|concerning|towards?) {_THING}|\b(?:summari[sz]e|summary|overview)\b.* of {_THING}|关于|有关", re.IGNORECASE
)


def route(question: str, project: Project) -> tuple[str, str]:
    """The mode for a question and the reason: `global` for the whole, `mix` for particulars."""
    if word := _GENERAL.search(question):
        named = named_entities(question, project)
        if not named and (subject := _SUBJECT.search(question, word.start())):
            return "mix", f"“{word.group()}” asks broadly, but “{subject.group()[:60]}” names a subject"
        if not named:
            return "global", f"“{word.group()}” asks about the documents as a whole"
        first = graph.entities(project.db, [named[0].entity_id])
        if first and first[0].type == "thing":
            return "global", f"“{word.group()}” asks about the documents as a whole"
        return "local", f"“{word.group()}” asks broadly, but of {named[0].text}"
    if named := named_entities(question, project):
        return "mix", f"it names {', '.join(dict.fromkeys(n.text for n in named[:3]))}"
    return "mix", "it asks for something particular"
