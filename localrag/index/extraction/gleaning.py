"""The further turns about a chunk: were names missed (gleaning), and what is claimed of them. They go on in the KV of the turn before."""

from collections.abc import Sequence
from functools import partial

from localrag.config import Settings
from localrag.errors import ContextTooSmall, DeadEnd, LocalragError
from localrag.index.extraction.names.noise import is_noise
from localrag.index.extraction.passage import Passage
from localrag.llm.budgets import Script
from localrag.llm.grammar import ENTITY_TOKENS, FOR_PAIRS, LEAST_LIST, choice, described_lines, entity_lines
from localrag.llm.model import CALL_FAILED, Model, Reply
from localrag.llm.prompts import load_prompt
from localrag.records import ExtractedEntity


async def glean(
    passage: Passage,
    names: Sequence[str],
    model: Model,
    settings: Settings,
    style: str,
    lost: list[LocalragError],
    after: Reply | None = None,
) -> tuple[list[ExtractedEntity], Reply | None]:
    """Entities beyond `names`, asked for as often as `max_gleanings` allows and the model says that some were missed.

    The paper forces the yes or no by a logit bias (section 3.1.2); here a grammar does. The reply lets the next turn go on. A call that
    fails ends it and is added to `lost`; what was found counts.
    """
    described = style == "abstractive"
    found: list[ExtractedEntity] = []
    types = ", ".join(settings.entity_types)
    script = await Script.of(model.count, passage.text) if described else None
    for _ in range(settings.max_gleanings):
        known = [*names, *(e.name for e in found)]
        own = settings.prompts
        messages = _gleaning(passage, known, settings, style) if after is None else load_prompt("abstractive/gleaning", own).fill()
        more = load_prompt(f"{style}/gleaned", own).fill(**({} if described else {"types": types}))
        grammar = partial(entity_lines, [], settings.entity_types, span_of=passage.text, described=described, known=known, script=script)
        try:
            missed = await model.ask("gleaning", messages, max_tokens=4, after=after, grammar=choice(["yes", "no"]))
            if described:
                after = missed
            if missed.text == "no":
                break
            reply = await model.ask_within(
                "gleaning",
                more,
                max_tokens=ENTITY_TOKENS,
                least=LEAST_LIST,
                share=1 - FOR_PAIRS if described else 1,
                after=missed,
                grammar=lambda tokens: grammar(tokens=tokens),  # noqa: B023 — called at once
            )
        except (DeadEnd, ContextTooSmall):  # it began a name that nothing new can end, or the window is full: there is no more to ask
            break
        except CALL_FAILED as error:
            lost.append(error)
            break
        rows = [ExtractedEntity(**row) for row in described_lines(reply.text, script)]
        found += [e for e in rows if not is_noise(e.name) and passage.spans(e.name)]
        if described:
            after = reply
        if not rows:
            break
    return found, after


def _gleaning(passage: Passage, known: Sequence[str], settings: Settings, style: str) -> list[dict[str, str]]:
    example = {kind: kind if kind in settings.entity_types else settings.entity_types[0] for kind in ("place", "organization")}
    return load_prompt(f"{style}/gleaning", settings.prompts).fill(
        text=passage.flat, names=", ".join(known), types=", ".join(settings.entity_types), **example
    )
