"""What the shell offers when Tab is pressed: models, indexes, entities, communities, pages of help. Quick, and never an error."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

Offer = str | tuple[str, str]  # what is typed, or that and what it is


class _Word(str):
    """A word as the shell takes it, which typer would compare with what was typed: unescaped, and in the case that was typed."""

    __slots__ = ()

    def startswith(self, *_: object) -> bool:
        """As `_begins` has found."""
        return True


def _offers(find: Callable[[typer.Context, str], Iterable[Offer]]) -> Callable[[typer.Context, str], list[Offer]]:
    """A function for typer's `autocompletion`: what `find` gives and begins like what was typed; nothing where it fails."""

    def complete(ctx: typer.Context, incomplete: str) -> list[Offer]:
        with suppress(Exception):  # whatever is wrong is said by the command itself, once it is run
            return [_typed(offer) for offer in find(ctx, incomplete) if _begins(offer, incomplete)]
        return []

    return complete


def _begins(offer: Offer, incomplete: str) -> bool:
    word = offer if isinstance(offer, str) else offer[0]
    return word.lower().startswith(incomplete.lower())


def _typed(offer: Offer) -> Offer:
    """As the shell takes it: bash, unlike others, puts a name into the line as it is, and one with a space must be one word."""
    last = os.environ.get("COMP_WORDS", "").split("\n")[-1]
    word, about = (offer, "") if isinstance(offer, str) else offer
    if os.environ.get("_LOCALRAG_COMPLETE") == "complete_bash" and last[:1] not in ("'", '"'):
        word = re.sub(r"([^\w@%+=:,./~-])", r"\\\1", word)
    return (_Word(word), about) if about else _Word(word)


def _of_kind(*kinds: str) -> Callable[[typer.Context, str], list[Offer]]:
    def find(_ctx: typer.Context, _incomplete: str) -> list[Offer]:
        from localrag.model_table import known_models

        table = known_models()
        return [name for kind in kinds for name in table[kind]]

    return _offers(find)


def _own_models(_ctx: typer.Context, _incomplete: str) -> list[Offer]:
    from localrag.model_table import user_models

    return [name for models in user_models().values() if isinstance(models, dict) for name in models]


def _models_to_download(_ctx: typer.Context, _incomplete: str) -> list[Offer]:
    from localrag.catalog.curated import curated

    return [(model.name, f"{model.parameters}, {model.good_for}") for model in curated()]


def _indexes(_ctx: typer.Context, incomplete: str) -> list[Offer]:
    from localrag.store.names import nearest_index

    beginning = incomplete[: incomplete.rfind("/") + 1]
    folders = sorted(p for p in Path(beginning or ".").expanduser().iterdir() if p.is_dir())
    return [f"{beginning}{p.name}" for p in folders if nearest_index(p)]


def _index_of(ctx: typer.Context) -> Path | None:
    """The index that a command would use; None if there is none, or if it is not the user's own and was not named."""
    from localrag.store.names import FILE_NAME, nearest_index
    from localrag.system.ownership import untrusted_reason

    chosen = ctx.params.get("index")
    folder = nearest_index(chosen)
    return None if folder and chosen is None and (untrusted_reason(folder) or untrusted_reason(folder / FILE_NAME)) else folder


def _entities(ctx: typer.Context, incomplete: str) -> list[Offer]:
    from localrag.store.names import entity_names

    folder = _index_of(ctx)
    return list(entity_names(folder, incomplete)) if folder else []


def _communities(ctx: typer.Context, incomplete: str) -> list[Offer]:
    from localrag.store.names import community_titles

    folder = _index_of(ctx)
    return list(community_titles(folder, incomplete)) if folder else []


def _pages(_ctx: typer.Context, _incomplete: str) -> list[Offer]:
    from localrag.system.files import data_path

    return sorted(path.stem for path in data_path("docs").rglob("*.md") if path.stem != "index")


any_model, chat_models = _of_kind("chat", "embedder", "reranker"), _of_kind("chat")
embedders, rerankers = _of_kind("embedder"), _of_kind("reranker")
own_models, models_to_download = _offers(_own_models), _offers(_models_to_download)
indexes, entities, communities, pages_of_help = _offers(_indexes), _offers(_entities), _offers(_communities), _offers(_pages)
