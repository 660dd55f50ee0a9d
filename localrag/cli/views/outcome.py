"""What a run of `localrag index` says at its end."""

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from localrag.cli.views.console import duration, say
from localrag.cli.views.terminal import in_line
from localrag.cli.views.usage import engine_line
from localrag.store import corpus, graph

if TYPE_CHECKING:
    from localrag.index.documents.update import Loaded
    from localrag.index.pipeline import Outcome
    from localrag.project import Project


def say_outcome(outcome: "Outcome", project: "Project", seconds: float) -> None:
    """The end of a run: what there is now, what was left out and why, what to do next."""
    counts = graph.counts(project.db)
    loaded = outcome.loaded
    if loaded.touched == 0 and project.model.calls == 0:
        say(f"Nothing new in {loaded.files} files; the index is complete ({seconds:.1f} s).")
    else:
        if loaded.changed or loaded.moved or loaded.deleted:
            kinds = {"new": loaded.new, "changed": loaded.changed, "moved": loaded.moved, "deleted": loaded.deleted}
            say(" · ".join(f"{len(found)} {kind}" for kind, found in kinds.items() if found))
        say(
            f"{counts['documents']} documents · {counts['chunks']} chunks · {counts['entities']} entities · {counts['relationships']} "
            f"relationships · {counts['communities']} communities · {counts['reports']} reports in {duration(seconds)} "
            f"({project.model.calls} calls, {project.model.output_tokens} tokens written)"
        )
        merged, noise = len(graph.merges(project.db, done=True)), corpus.noise(project.db)
        say(f"{merged} names made part of others (localrag merges list) · {noise} capitalised words left out as no names")
        if line := engine_line(project.model.report()):
            say(line)
    if loaded.skipped:
        first = ", ".join(f"{in_line(s.path)} ({s.reason})" for s in loaded.skipped[:3])
        say(f"{len(loaded.skipped)} files left out: {first}{' …' if len(loaded.skipped) > 3 else ''}. All: localrag files --skipped")
    say_kept(loaded)
    if outcome.failures:
        why = ", ".join(f"{n} {kind}" for kind, n in Counter(f.kind or "failed" for f in outcome.failures).most_common())
        say(f"{_failed_parts(outcome, counts)} ({why}): {outcome.failures[0].reason} Retry: run the same command again.")
    if counts["chunks"] and not counts["entities"]:
        say('No entity was found in these files; questions are answered from the passages: localrag ask "…" --mode basic')
    elif loaded.touched or project.model.calls:
        say('Ask: localrag ask "What are the main themes?" --mode global')


def say_kept(loaded: "Loaded") -> None:
    """Which documents stay although their files were not found, and how to remove them."""
    for one in loaded.unreached:
        n = len(one.documents)
        kept = f"{n} documents from there are kept" if n > 1 else "the document from there is kept"
        say(f"{in_line(one.path)} {one.why}: {kept}. To remove {'them' if n > 1 else 'it'}: localrag rm {shlex.quote(one.path)}")
    if loaded.kept:
        say(
            f"{len(loaded.kept)} documents, more than a third, have no readable file any more; they are kept until you say so. "
            "To remove them, run the same command with --prune. Which they are: localrag files --skipped"
        )


def _failed_parts(outcome: "Outcome", counts: dict[str, int]) -> str:
    n = Counter(f.stage for f in outcome.failures)
    said = {
        "extraction": f"of {counts['chunks']} chunks gave no graph or only a part of it",
        "same entity": "pairs of names were left undecided",
        "description": "entities and relationships have no summary of their descriptions",
        "report": f"of {counts['communities']} communities have no report",
    }
    return " and ".join(f"{n[stage]} {text}" for stage, text in said.items() if n[stage])
