"""Does a follow-up question lean on the conversation before it? A pronoun whose noun the question itself has does not."""

import re
from collections.abc import Sequence

from localrag.query.questions.language import language_of
from localrag.query.questions.pointers import LANGUAGES, Pointers
from localrag.query.questions.question_words import CJK_BROAD, CJK_WHOLE, FUNCTION
from localrag.query.questions.whole import about_everything
from localrag.text.plain import is_cjk

_EMPTY = frozenset(  # words that ask on, and say nothing by themselves
    """since give exactly more else detail details tell explain happen happened happens next again really example examples elaborate
    continue further come many much year day place way reason date month time sure go on ago soon long often whom say said
    mean think true right genau noch mehr weiter passierte geschah beispiel grund jahr bedeutet stimmt entonces
    más pasó exactamente año plus encore après année
    exactement passé ensuite pourquoi perché poi perch porquê por quê""".split()
)
_CJK_BACK = re.compile(
    rf"呢[？?]?$|^(?:那么|那|还有|然后|所以|另外|而且)|其他人|其余|此人|该(?:人|公司|书)|(?:后来|之后|接着|当时)[^，]{{0,6}}[？?]?$"
    rf"|(?:这|那)(?!些?(?:份|个|本|里)?(?:{'|'.join(CJK_WHOLE.split())}|些))|[那](?:里|时|次)|それ|その|そこ|彼女?|그(?:는|녀|것|의|때)"
)
_CJK_PERSON = re.compile(r"(?<!其)(?<!吉)[他她它]")
_CJK_EMPTY = re.compile(
    r"为什么|怎么样|怎么回事|什么时候|哪里|多少|几|谁|何时|为何|还有|更多|具体|一点|详细|なぜ|いつ|どこ|どうして|誰|왜|언제|어디|누구"
)


def leans(question: str, names: Sequence[str] = ()) -> bool:
    """Whether a question cannot be understood without those before it; `names` are the things of the index that it names."""
    if about_everything(question):
        return False
    if is_cjk(question):
        return _leans_cjk(question, names)
    text = question.strip().replace("’", "'")
    language = language_of(text)
    words = re.findall(r"[^\W\d_]+", text.lower())
    small = {*FUNCTION.get(language, FUNCTION["en"]).split(), *_EMPTY}
    if not names and not re.search(r"\d", text) and all(w in small for w in words):
        return True
    if (
        len(words) <= 4
        and text.endswith("?")
        and re.match(r"(?:the|his|her|their|its|any|der|die|das|el|la|le|les)\b", text, re.IGNORECASE)
    ):
        return True  # a noun without a verb
    pointers = LANGUAGES.get(language, LANGUAGES["en"])
    if pointers.starts.search(text):
        return True
    return _points_out(text, pointers, names)


def _points_out(text: str, pointers: Pointers, names: Sequence[str]) -> bool:
    text = pointers.idle.sub(lambda m: "·" * len(m.group()), text)
    if pointers.back.search(text):
        return True
    nouns = [m.start() for m in pointers.nouns.finditer(text)]
    nouns += [at for name in names if (at := text.lower().find(name.lower())) >= 0]
    for m in pointers.owning.finditer(text):
        asker = re.match(r"(?:who|wer|quién|qui)\b(?! (?:is|are|was|were|ist|war|es|era|est|était)\b)", text, re.IGNORECASE)
        asks_for_more = m.group().lower() in ("else", "the same")
        if (
            (asks_for_more or not asker)
            and not any(at < m.start() for at in nouns)
            and not (m.group().lower() in ("lo", "le", "les") and nouns)
        ):
            return True
    for m in pointers.personal.finditer(text):
        joins = [j.start() for j in pointers.joins.finditer(text, 1, m.start())]
        if not any(at < join for at in nouns for join in joins):
            return True
    return False


def _leans_cjk(question: str, names: Sequence[str]) -> bool:
    known = min((at for name in names if (at := question.find(name)) >= 0), default=len(question))
    if _CJK_BACK.search(question):
        return True
    if person := _CJK_PERSON.search(question):
        return person.start() < known
    rest = re.sub(r"[\s？?。！!，,吗呢了的是在有和请]", "", _CJK_EMPTY.sub("", question))
    return not rest or (len(rest) <= 1 and not any(w in question for w in CJK_BROAD.split()))
