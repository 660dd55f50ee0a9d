"""What a run of `localrag index` says at its end."""

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from localrag.cli.views.console import duration, say
from localrag.cli.views.terminal import in_line

if TYPE_CHECKING:
    from localrag.index.documents.update import Loaded
    from localrag.index.pipeline import Outcome
    from localrag.library import Index


def say_outcome(outcome: "Outcome", index: "Index", seconds: float) -> None:
    """The end of a run: what there is now, what was left out and why, what to do next."""
    counts = index.counts()
    loaded = outcome.loaded
    if loaded.touched == 0 and outcome.calls == 0:
        say(f"Nothing new in {loaded.files} files; the index is complete ({seconds:.1f} s).")
    else:
        names = ("documents", "chunks", "entities", "relationships", "reports")
        say(f"{' · '.join(f'{counts[name]} {name}' for name in names)} in {duration(seconds)}")
        say(" · ".join(_figures(outcome, counts["merged"])))
    if collected := [one for one in outcome.collected if one.kind != "caches"]:  # those follow every change
        said = ", ".join(f"{one.n} {one.kind}" for one in collected)
        say(f"Deleted what nothing needs any more: {said} ({sum(one.bytes for one in collected) / 1e6:.1f} MB).")
    if loaded.skipped:
        first = ", ".join(f"{in_line(s.path)} ({s.reason})" for s in loaded.skipped[:3])
        say(f"{len(loaded.skipped)} files left out: {first}{' …' if len(loaded.skipped) > 3 else ''}. All: localrag files --skipped")
    say_kept(loaded)
    if outcome.failures:
        why = ", ".join(f"{n} {kind}" for kind, n in Counter(f.kind or "failed" for f in outcome.failures).most_common())
        say(f"{_failed_parts(outcome, counts)} ({why}): {outcome.failures[0].reason} Retry: run the same command again.")
    if counts["chunks"] and not counts["entities"]:
        say("No entity was found in these files; questions are answered from the passages.")
    if loaded.touched or outcome.calls:
        say("Next:\n" + "\n".join(f"  {command}" for command in next_steps(index, counts)))


def _figures(outcome: "Outcome", merged: int) -> list[str]:
    """What the run did, in its second line."""
    loaded = outcome.loaded
    kinds = {"new": loaded.new, "changed": loaded.changed, "moved": loaded.moved, "deleted": loaded.deleted}
    said = [f"{len(found)} {kind}" for kind, found in kinds.items() if found]
    if outcome.calls:
        speed = f" at {outcome.tokens_per_s:.0f} tok/s" if outcome.tokens_per_s else ""
        said.append(f"{outcome.calls} model calls, {outcome.output_tokens} tokens written{speed}")
    if merged:
        said.append(f"{merged} names made part of others (localrag merges list)")
    return said or ["no document has changed"]


def next_steps(opened: "Index", counts: dict[str, int]) -> list[str]:
    """The commands that follow a run; with `--index` where a command run here would not find the index by itself."""
    from localrag.errors import NoIndex
    from localrag.opening import find_index

    try:
        near = find_index(None).resolve() == opened.folder.resolve()
    except NoIndex:
        near = False
    index = "" if near else f" --index {shlex.quote(os.path.relpath(opened.folder))}"
    mode = "global" if counts["reports"] else "basic"
    ask = f'localrag ask "What are the main themes?" --mode {mode}'
    steps = [ask, "localrag chat", "localrag serve", "localrag export html graph.html"]
    return [step + index for step in steps]


def outcome_json(outcome: "Outcome", index: "Index", seconds: float) -> dict[str, Any]:
    """The end of a run for a program."""
    loaded, counts = outcome.loaded, index.counts()
    names = ("documents", "chunks", "entities", "relationships", "communities", "reports")
    return {
        "state": "complete" if outcome.complete else "partly",
        "files": loaded.files,
        **{name: list(getattr(loaded, name)) for name in ("new", "changed", "moved", "deleted", "kept")},
        "counts": {name: counts[name] for name in names},
        "skipped": [{"path": s.path, "reason": s.reason, "failed": s.failed} for s in loaded.skipped],
        "failures": [{"stage": f.stage, "subject": f.subject, "reason": f.reason, "kind": f.kind} for f in outcome.failures],
        "seconds": round(seconds, 1),
        "spent": outcome.seconds,
        "collected": {one.kind: {"n": one.n, "bytes": one.bytes} for one in outcome.collected},
        "log_bytes": outcome.log_bytes,
        **{name: getattr(outcome, name) for name in ("calls", "prompt_tokens", "output_tokens", "computed_tokens")},
        "models": index.models(),
        "index": str(index.folder),
        "next": next_steps(index, counts),
    }


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
