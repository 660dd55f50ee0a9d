"""Is a question about the documents as a whole? Rules that can be read.

It is if it asks for what one asks of everything (themes, a summary, the main points) and little is left of it but words for the documents
and words that every question has. What is left makes it particular: a bridge, a roof, a name.
"""

import re
from functools import cache

from localrag.query.questions import question_words as words
from localrag.query.questions.language import language_of
from localrag.text.plain import CJK, is_cjk

_WORD = re.compile(r"tl;?dr|[^\W_]+", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“«„「『《][^\"”»“」』》]{2,}[\"”»“」』》]")
_ABOUT = re.compile(r"\b(?:about|worum|wovon|de qué|de quoi|di cosa|(?:do|de) que|waar gaat|vad handlar)\b|о чём", re.IGNORECASE)
_SINGLE = re.compile(
    r"\b(?:who|whom|whose|when|where|how (?:many|much|long|old|far|often|big|large|tall|high)|in which|at which|wer|wen|wem|wessen|wann|wo"
    r"|wie (?:viele?|lange?|alt|weit|oft|groß|hoch)|quién(?:es)?|cuándo|dónde"
    r"|cuánt[oa]s?|qui|quand|où|combien|chi|quando|dove|quem|onde|wie is"
    r"|wanneer|vem|när)\b|\b(?:кто|когда|где)\b",
    re.IGNORECASE,
)
_THESE = re.compile(
    r"\b(?:these|all(?: of)?(?: the| these| my| our)?|the (?:whole|entire)|across(?: all)?(?: the| these)?|throughout(?: the)?|this|die"
    r"|diese[nr]?|allen?|estos|estas|todos|todas|ces|tous|toutes|ensemble|questi|queste|estes|estas|destes|deze|эти|этих|всех)"
    r" (?:[^\W_]+ ){0,1}?(?:documents?|texts?|files?|notes|books?|corpus|collection|archive|folder|reports?|papers|articles|letters"
    r"|data|dataset|stories|novel|story|material|dokumente?n?|texte?n?|dateien|sammlung|berichten?|unterlagen|documentos|textos|archivos|informes"
    r"|fichiers|textes|rapports|documenti|testi|documenten|teksten|документ\w*|текст\w*)\b"
    r"|\b(?:corpus|dataset|collection|archive|everything|here|alles|todo|tout)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b(?:he|she|his|him|hers?|er|ihm|ihn|él|ella|il|elle|lui|lei|ele|ela|hij|zij|он|она)\b", re.IGNORECASE)
_ONE = re.compile(
    r"\b(?:note|letter|report|paper|document|file|page|message|article|contract|book|meeting|story|email|record|log|review|study|interview"
    r"|brief|bericht|dokument|buch|vertrag|carta|informe|documento|libro|contrato|lettre|rapport|livre|contrat)\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\b(?:of|about|on|in|at|by|from|to|for|with|regarding|concerning|towards?|between|von|vom|über|zu[mr]?|im|am|auf|für|zwischen|de|del|sobre"
    r"|en|para|entre|du|des|sur|dans|au|pour|di|della?|su|nella?|do|da|no|na|van|voor|om|о|об)\b[^,;:]*$|[’'](?:s)? ?$",
    re.IGNORECASE,
)
_WORDS = {
    "BROAD": words.BROAD,
    "ASPECT": words.ASPECT,
    "MAIN": words.MAIN,
    "WHOLE": words.WHOLE,
    "ASKING": words.ASKING,
    "SMALL": " ".join(words.FUNCTION.values()),
}
_CJK_WORDS = {
    "BROAD": words.CJK_BROAD,
    "ASPECT": words.CJK_ASPECT,
    "MAIN": words.CJK_MAIN,
    "WHOLE": words.CJK_WHOLE,
    "SMALL": words.CJK_SMALL,
}
CLASSES = tuple(_WORDS)

# Weights of the signs, fitted on labelled questions and rounded: the words that are left decide, unless the documents are meant expressly.
BIAS = 0.8
WEIGHTS = {
    "broad": 0.9,
    "aspect": 0.9,
    "main": 0.4,
    "aspect and main": 0.4,
    "whole": 0.6,
    "these": 1.6,
    "about": 0.9,
    "single": -3.7,
    "person": -2.4,
    "one": -2.1,
    "left": -1.9,
    "named": -1.8,
    "subject": -1.4,
}


def about_everything(question: str) -> str:
    """The word by which a question asks about the documents as a whole; empty if it asks about something in them."""
    if _QUOTED.search(question):
        return ""
    if is_cjk(question):
        return _in_cjk(question)
    signs, word = signs_of(question)
    return word if BIAS + sum(WEIGHTS[s] * n for s, n in signs.items()) > 0 else ""


def signs_of(question: str) -> tuple[dict[str, int], str]:
    """What speaks for and against a question being about the documents as a whole, and the word of it that asks so."""
    text = question.replace("’", "'")
    found = [m for m in _WORD.finditer(text)]
    lower = [m.group().lower() for m in found]
    kinds = [{kind for kind in CLASSES if _matches(kind, w)} for w in lower]
    first = {kind: next((w for w, k in zip(lower, kinds, strict=True) if kind in k), "") for kind in CLASSES}
    left = [m for m, k in zip(found, kinds, strict=True) if not k and not (m.group().isdigit() and int(m.group()) < 100)]
    about = _ABOUT.search(text)
    named = [m for m in left if m.start() and m.group()[0].isupper() and text[m.start() - 2 : m.start() - 1] not in ".?!:"]
    german = language_of(question) == "de"
    signs = {
        "broad": int(bool(first["BROAD"])),
        "aspect": int(bool(first["ASPECT"])),
        "main": int(bool(first["MAIN"])),
        "whole": int(bool(first["WHOLE"])),
        "aspect and main": int(bool(first["ASPECT"] and first["MAIN"])),
        "these": int(bool(_THESE.search(text))),
        "about": int(bool(about and len(found) > 2 and not left)),
        "single": int(bool(_SINGLE.search(text)) and not first["MAIN"]),
        "person": int(bool(_PERSON.search(text))),
        "one": int(bool(_ONE.search(text)) and not (first["BROAD"] or first["ASPECT"] or about)),
        "left": min(3, len(left)),
        "named": int(bool(named) and not german),
        "subject": int(any(_LINK.search(text[: m.start()]) for m in left)),
    }
    return signs, first["BROAD"] or first["ASPECT"] or first["WHOLE"] or (about.group() if about and len(found) > 2 else "")


def _in_cjk(question: str) -> str:
    left = "".join(re.findall(f"[{CJK}A-Za-z0-9]+", question))
    first = {}
    for kind in _CJK_WORDS:
        first[kind] = next(iter(_cjk(kind).findall(left)), "")
        left = _cjk(kind).sub(" ", left)
    if left.strip():
        return ""
    if first["ASPECT"] and (first["MAIN"] or first["WHOLE"]):
        return first["ASPECT"]
    return first["BROAD"] or first["WHOLE"]


def first_word(question: str, kind: str) -> str:
    """The first word of a question that is of a kind, see `CLASSES`; empty where there is none."""
    return next((w for w in _WORD.findall(question) if _matches(kind, w.lower())), "")


def is_of(word: str, kind: str) -> bool:
    """Whether a word is of a kind, see `CLASSES`."""
    return _matches(kind, word.lower())


@cache
def _matches(kind: str, word: str) -> bool:
    return bool(_pattern(kind).fullmatch(word))


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    listed = _WORDS[kind].split()
    return re.compile("|".join(re.escape(w[:-1]) + r"\w*" if w.endswith("*") else re.escape(w) for w in listed))


@cache
def _cjk(kind: str) -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, _CJK_WORDS[kind].split()), key=len, reverse=True)))
