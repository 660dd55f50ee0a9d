"""The end of an erasure: everything that was made of documents that are gone leaves the index folder. Part of the pipeline."""

from dataclasses import replace
from pathlib import Path

from localrag.config import Domain
from localrag.index.graph.aliases import drop_aliases
from localrag.llm.domain import change_domains
from localrag.llm.grammar import THING
from localrag.project import Project
from localrag.store import departed, studies
from localrag.store import purge as erasure


def erase_traces(project: Project) -> bool:
    """Where documents were forgotten and the graph is built from what is left: delete what else holds their words.

    A no-op where nothing was forgotten. False where another process still reads what was: the next run ends it then.
    """
    db, folder = project.db, project.folder
    if not erasure.is_due(db):
        return True
    is_left_over = departed.leftovers(db)

    def without(domain: Domain) -> Domain:
        """What the domain says without those of its parts that hold such a word."""
        about, persona, rating = ("" if is_left_over(text) else text for text in (domain.about, domain.persona, domain.rating))
        examples = tuple(e for e in domain.examples if not any(map(is_left_over, [e.text, *(n for n, _ in e.entities)])))
        return replace(domain, about=about, persona=persona, rating=rating, examples=examples)

    if change_domains(folder, without):
        project.model.say(f"{folder / 'domain.toml'} no longer has what it quoted of them.")
    if lines := drop_aliases(folder, is_left_over):
        project.model.say(f"{lines} decisions about their names are out of {folder / 'aliases.txt'}.")
    for study, left in erasure.forget_studies(db):
        project.model.say(f"The study in {study} was made of them; it is gone as well.{_listed(left)}")
    for study in studies.unproven_studies(db):
        project.model.say(
            f"The index names a study in {study}, but nothing proves that it was made of this index here, so nothing in it was touched. "
            "If it holds what was removed, delete that folder yourself."
        )
    erasure.forget_traces(db, [*project.settings.entity_types, THING])
    return erasure.finish(db, folder)


def _listed(left: list[Path]) -> str:
    """A sentence with the files that stay because localrag did not write them; empty if there are none."""
    return f" Files that localrag did not write stay: {', '.join(map(str, left))}" if left else ""
