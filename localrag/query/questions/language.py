"""Which language a question is in: its own small words tell, enough to answer in it and to know its pronouns."""

import re
from functools import lru_cache

from localrag.query.questions.question_words import FUNCTION
from localrag.text.plain import is_cjk

_WORD = re.compile(r"[^\W\d_]+")
_KANA, _HANGUL = re.compile("[\u3040-\u30ff]"), re.compile("[\uac00-\ud7af]")
_OWN = {"de": "äöüß", "es": "¿¡ñáíóú", "fr": "çèêëîïôûœ", "pt": "ãõ"}  # letters that no other language of the list has, or hardly

_SMALL = {code: frozenset(words.split()) for code, words in FUNCTION.items()}


@lru_cache(maxsize=256)
def language_of(text: str) -> str:
    """The two letters of a text's language; English where nothing tells another."""
    if is_cjk(text):
        return "ja" if _KANA.search(text) else "ko" if _HANGUL.search(text) else "zh"
    words = _WORD.findall(text.lower())
    score = {
        code: sum(w in small for w in words) + 0.6 * any(c in text.lower() for c in _OWN.get(code, "")) for code, small in _SMALL.items()
    }
    return max(score, key=lambda code: (score[code], code == "en"))
