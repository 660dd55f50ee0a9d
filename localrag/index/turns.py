"""The further turns about a chunk: were names missed (gleaning), and what is claimed of them. They go on in the KV of the turn before."""

from collections.abc import Sequence

from localrag.config import Settings
from localrag.errors import ContextTooSmall, DeadEnd, LocalragError
from localrag.index.noise import is_noise
from localrag.index.places import find_name
from localrag.llm import CALL_FAILED, Model, Reply
from localrag.llm.budgets import Script
from localrag.llm.grammar import CLAIM_TOKENS, ENTITY_TOKENS, NOBODY, choice, claim_lines, entity_lines, parse_lines
from localrag.llm.prompts import load_prompt
from localrag.records import ExtractedClaim, ExtractedEntity
from localrag.text import is_cjk, squeeze


async def glean(
    text: str,
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
    script = await Script.of(model.count, text) if described else None
    for _ in range(settings.max_gleanings):
        known = [*names, *(e.name for e in found)]
        messages = _gleaning(text, known, settings, style) if after is None else load_prompt("abstractive/gleaning").fill()
        more = load_prompt(f"{style}/gleaned").fill(**({} if described else {"types": types}))
        grammar = entity_lines([], settings.entity_types, span_of=text, described=described, known=known, script=script)
        try:
            missed = await model.ask("gleaning", messages, max_tokens=4, after=after, grammar=choice(["yes", "no"]))
            if described:
                after = missed
            if missed.text == "no":
                break
            reply = await model.ask("gleaning", more, max_tokens=ENTITY_TOKENS, after=missed, grammar=grammar)
        except (DeadEnd, ContextTooSmall):  # it began a name that nothing new can end, or the window is full: there is no more to ask
            break
        except CALL_FAILED as error:
            lost.append(error)
            break
        rows = [ExtractedEntity(**row) for row in parse_lines(reply.text)]
        found += [e for e in rows if not is_noise(e.name) and find_name(text, e.name)]
        if described:
            after = reply
        if not rows:
            break
    return found, after


def _gleaning(text: str, known: Sequence[str], settings: Settings, style: str) -> list[dict[str, str]]:
    example = {kind: kind if kind in settings.entity_types else settings.entity_types[0] for kind in ("place", "organization")}
    return load_prompt(f"{style}/gleaning").fill(
        text=squeeze(text), names=", ".join(known), types=", ".join(settings.entity_types), **example
    )


async def claims_of(
    text: str, names: Sequence[str], model: Model, style: str, lost: list[LocalragError], after: Reply | None = None
) -> list[ExtractedClaim]:
    """What the text claims of the named entities; each claim quotes the words that make it. A call that fails is added to `lost`."""
    if not names:
        return []
    flat, described = squeeze(text), style == "abstractive"
    prompt = load_prompt(f"{style}/claims")
    messages = prompt.fill() if after is not None else prompt.fill(text=flat, names=", ".join(names))
    script = await Script.of(model.count, flat) if described else None
    grammar = claim_lines(names, flat, described=described, script=script)
    try:
        reply = await model.ask("claims", messages, max_tokens=CLAIM_TOKENS, after=after, grammar=grammar)
    except DeadEnd:  # it began a source that nothing new can end
        return []
    except CALL_FAILED as error:
        if isinstance(error, ContextTooSmall) and after is not None:  # the conversation is too long to go on with: ask anew
            return await claims_of(text, names, model, "extractive", lost)
        lost.append(error)
        return []
    found = []
    for row in parse_lines(reply.text):
        places = find_name(text, row["source"])
        if places and len(row["source"]) >= (4 if is_cjk(text) else 12):
            target = "" if row["object"] == NOBODY else row["object"]
            about = row.get("description") or row["source"]
            kind, start, end = row["type"].strip().lower(), places[0].start, places[0].end
            found.append(ExtractedClaim(row["subject"], target, kind, row["status"], row["from"], row["to"], about, start, end))
    return found
