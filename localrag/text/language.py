"""The language of a text, told by its function words; how many other words it has; the sentences that frame an answer in it."""

import re
import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from localrag.text.sentences import is_cjk

MAX_BESIDE, MAX_BESIDE_CJK = 2, 6  # words, characters, of a question that is about a name and nothing more

# Function words that identify languages.
FUNCTION_WORDS_BY_LANGUAGE = {
    "en": """
        a an the this that these those it its they we i you he she his her their our your my me us them of to in on at by for from
        with and or but if as than is are was were be been being am do does did have has had will would shall should may might can
        could what which who whom whose how why when where there not no any some please just only so about into over up out let s re
        ll d m ve t
    """,
    "de": """
        der die das des dem den ein eine einen einem einer eines und oder aber in im an am auf aus bei beim mit nach von vom zu zum
        zur für über um durch ist sind war waren wird werden wurde wurden hat haben hatte was wer wen wem welche welcher welches
        welchen wie warum wann wo es er sie wir ich du ihr man mir uns dir sich nicht kein keine hier dieser diese dieses diesen
        diesem bitte mal denn eigentlich so als auch nur kannst können könntest lassen lässt gibt gib zwischen worum wovon worüber
        dort geschah dann
    """,
    "es": """
        el la los las un una unos unas y o pero de del en a al con por para sobre entre es son fue fueron era ser está están ha han
        hay que qué cuál cuáles quién quiénes cómo cuándo dónde se me te nos lo le les su sus este esta estos estas esto ese esa
        esos esas no más muy todo favor puede pueden puedes podría cuánto cuánta cuántos sin después pasó
    """,
    "fr": """
        le la les l un une des du de d et ou mais dans en à au aux avec par pour sur entre est sont était été être a ont avait que
        qu quoi quel quelle quels quelles qui comment pourquoi quand où il elle ils elles on nous vous je tu moi se s ce c cet cette
        ces ne pas n y son sa ses leur leurs plus plaît peut peux pouvez combien j
    """,
    "it": """
        il lo la i gli le l un uno una e o ma di del della dei delle degli in nel nella nei nelle a al con per su tra fra è sono era
        che cosa quale quali chi come quando dove perché si mi questo questa questi queste non più tutto favore può
    """,
    "pt": """
        o a os as um uma e ou mas de do da dos das em no na nos nas com por para sobre entre é são foi que qual quais quem como
        quando onde se me este esta estes estas isto não mais deste desta destes destas nestes nestas pode favor
    """,
    "nl": """
        de het een en of maar van in op aan bij met naar voor over door is zijn was waren wordt worden heeft hebben wat wie welke
        hoe waarom wanneer waar er ik je we wij mij me deze dit die dat niet geen
    """,
    "sv": """
        den det de en ett och eller men av i på för med om är var vad vem vilka vilken hur varför när jag mig dessa detta inte alla
    """,
    "ru": """
        и или в на о об по с из что чём чем кто как когда где почему это эти этих этот все всех какие какой каковы есть мне не для
        ли
    """,
}

LANGUAGE_NAMES = {  # of the languages that are told apart
    "en": "English", "de": "German", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese", "nl": "Dutch", "sv": "Swedish",
    "ru": "Russian", "zh": "Chinese", "ja": "Japanese", "ko": "Korean", "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "el": "Greek", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "lt": "Lithuanian", "lv": "Latvian", "no": "Norwegian", "pl": "Polish", "ro": "Romanian",
    "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
}  # fmt: skip
MAX_CLASSIFIED_CHARS = 1000
MIN_FUNCTION_WORDS = 2  # of one language, more than of any other, that decide
MIN_LANGUAGE_PROBABILITY = 0.9  # from which on the language model decides a text without them

_LETTERS = re.compile(r"[^\W\d_]+")
_KANA, _HANGUL = re.compile("[\u3040-\u30ff]"), re.compile("[\uac00-\ud7af]")
_FUNCTION_WORDS = {code: frozenset(words.split()) for code, words in FUNCTION_WORDS_BY_LANGUAGE.items()}


@lru_cache(maxsize=4096)
def detect_language(text: str) -> str:
    """The two-letter code of a text's language, by its function words, else by py3langid; English if neither is sure."""
    if is_cjk(text):
        return "ja" if _KANA.search(text) else "ko" if _HANGUL.search(text) else "zh"
    words = _LETTERS.findall(text.lower())
    counts = {code: sum(w in small for w in words) for code, small in _FUNCTION_WORDS.items()}
    (best, n), (_, second) = sorted(counts.items(), key=lambda item: (-item[1], item[0] != "en"))[:2]
    if n >= MIN_FUNCTION_WORDS and n > second:
        return best
    likeliest, probability = _language_model().classify(text[:MAX_CLASSIFIED_CHARS])
    if probability >= MIN_LANGUAGE_PROBABILITY:
        return str(likeliest)
    return best if n > second else "en"


@cache
def _language_model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # slow import

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    model.set_languages(sorted(LANGUAGE_NAMES))
    return model


def has_few_words_beside(question: str, names: Sequence[str]) -> bool:
    """Whether a question has at most MAX_BESIDE words beside names and function words, as "Give me an overview of Ruth Sand" has."""
    for name in names:
        question = question.replace(name, " ")
    if is_cjk(question):
        return len("".join(_LETTERS.findall(question))) <= MAX_BESIDE_CJK
    small = _FUNCTION_WORDS.get(detect_language(question), frozenset())
    return sum(len(w) > 1 and w not in small for w in _LETTERS.findall(question.lower())) <= MAX_BESIDE


@cache
def frame_texts() -> dict[str, dict[str, str]]:
    """The sentences that frame an answer, by name and language."""
    return tomllib.loads(Path(__file__).with_name("frame_texts.toml").read_text(encoding="utf-8"))


def frame_text(name: str, question: str, **values: object) -> str:
    """A sentence of `frame_texts` in the language of a question, else in English, with its values."""
    by_language = frame_texts()[name]
    return by_language.get(detect_language(question), by_language["en"]).format(**values)
