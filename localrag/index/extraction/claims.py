"""What a chunk claims of its entities: who did what, with status, dates and the words that say so (paper, section 3.1.2)."""

from collections.abc import Sequence

from localrag.config import Settings
from localrag.engine.sampler import Grammar
from localrag.errors import ContextTooSmall, DeadEnd, LocalragError
from localrag.index.extraction.passage import Passage
from localrag.llm.budgets import Script
from localrag.llm.grammar import CLAIM_TOKENS, LEAST_LIST, NOBODY, claim_lines, described_lines
from localrag.llm.model import CALL_FAILED, Model, Reply
from localrag.llm.prompts import load_prompt
from localrag.records import ExtractedClaim


async def claims_of(
    passage: Passage,
    names: Sequence[str],
    model: Model,
    settings: Settings,
    style: str,
    lost: list[LocalragError],
    after: Reply | None = None,
) -> list[ExtractedClaim]:
    """What the text claims of the named entities; each claim quotes the words that make it. A call that fails is added to `lost`.

    Raises ContextTooSmall if the passage is too long for the model's window.
    """
    if not names:
        return []
    flat, described = passage.flat, style == "abstractive"
    prompt = load_prompt(f"{style}/claims", settings.prompts)
    messages = prompt.fill() if after is not None else prompt.fill(text=flat, names=", ".join(names))
    script = await Script.of(model.count, flat) if described else None

    def grammar(tokens: int) -> Grammar:
        return claim_lines(names, flat, described=described, script=script, tokens=tokens)

    try:
        reply = await model.ask_within("claims", messages, max_tokens=CLAIM_TOKENS, least=LEAST_LIST, after=after, grammar=grammar)
    except DeadEnd:  # it began a source that nothing new can end
        return []
    except CALL_FAILED as error:
        if isinstance(error, ContextTooSmall):
            if after is None:
                raise
            return await claims_of(passage, names, model, settings, "extractive", lost)  # the conversation is too long: ask anew
        lost.append(error)
        return []
    found = []
    for row in described_lines(reply.text, script):
        places = passage.spans(row["source"])
        if places and len(row["source"]) >= (4 if passage.cjk else 12):
            target = "" if row["object"] == NOBODY else row["object"]
            about = row.get("description") or row["source"]
            kind, start, end = row["type"].strip().lower(), places[0].start, places[0].end
            found.append(ExtractedClaim(row["subject"], target, kind, row["status"], row["from"], row["to"], about, start, end))
    return found
