"""Conversations: follow-ups rewritten as standalone questions, and suggested questions.

A question is a follow-up if it has a pronoun or demonstrative that it does not resolve itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, islice, zip_longest

from localrag.llm.budgets import TokenDensity
from localrag.llm.grammar import standalone_line
from localrag.llm.prompts import load_prompt
from localrag.project import Project
from localrag.query.abstractive import try_ask_within_budget, unmarked_text
from localrag.query.question import Question
from localrag.query.retriever import named_entities
from localrag.records import Answer
from localrag.store import browse, graph
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE, detect_language
from localrag.text.sentences import collapse_whitespace, is_cjk

# Words for documents: "these letters" refers to the collection, not to an earlier answer.
_TEXTS = (
    r"documents?|files?|texts?|notes|books?|novel|stor(?:y|ies)|reports?|papers|articles|letters|messages|minutes|records|reviews|interviews"
    r"|collection|archive|corpus|folder|dataset|dokument\w*|texte\w*|dateien|berichte?|briefe|buch|bücher|sammlung|archiv|unterlagen"
    r"|documentos?|textos?|archivos?|informes|cartas|libros?|fichiers?|textes?|rapports|lettres|livres?"
)
_CJK_TEXTS = "信|记录|邮件|合同|手册|论文|文档|文件|资料|文本|文章|全书|书|报告|内容|故事|小说|笔记|材料|数据|档案"


@dataclass(frozen=True, slots=True)
class AnaphoraWords:
    """Patterns of a language's words that refer back.

    `fixed` phrases only look as if they did. `openers` begin a follow-up; `demonstratives` always refer out of the question; `personal`
    pronouns do unless a clause before them has a noun, `possessives` unless a noun stands before them. Nouns follow on `articles`.
    """

    fixed: str
    openers: str
    demonstratives: str
    personal: str
    possessives: str
    articles: str


ANAPHORA_BY_LANGUAGE = {
    "en": AnaphoraWords(
        fixed=rf"(?:this|these)(?: \w+)? (?:{_TEXTS})|(?:this|these|those) (?:year|month|week|days|morning|who|which|of|in|that|with|from)"
        r"|that \w+(?: [\w']+){0,4} (?:when|who|which|where|that|of)|it (?:takes?|took|rain\w*|snow\w*)|what time is it"
        r"|(?:it(?:'s| is| was)|(?:is|was) it) (?:true|possible|said|known|likely|clear|necessary|important|that)"
        r"|(?:is|are|was|were|be|been|exists?) there(?![ ?.!]*$)|how many [^,]+ (?:a|we)re there|there(?:'s| is| are| was| were| has| have)"
        r"|the same [\w ]+ as|at the same time|no one|one another|(?:the|which) (?:\w+ )?ones? (?:who|that|which|to|of|in|from|with)",
        openers="and|but|or|so|what about|how about|how come|then|same|anything else|what else",
        demonstratives=r"this|these|those|there|that(?= *[?.!,]|$)|(?:then|afterwards)(?= *[?.!]*$)|(?:by|since|until) then|aforementioned"
        r"|(?:of|about|after|before|for|with|from|by|like|to|in|on|is|was|are|did|does|do|has|had|would|can|why|how|explain|during) that"
        r"|(?:which|that|other|first|second|third|last|next|older|newer|same|right) ones?|the (?:ones?|former|latter|others?)",
        personal=r"he|she|it|they|him|them|hers|theirs|himself|herself|itself|themselves|her(?= *(?:[?.!,]|$))",
        possessives="his|her|its|their|else|the same",
        articles="the|an?|which|what|whose|every|each|any|no",
    ),
    "de": AnaphoraWords(
        fixed=rf"(?:gibt|gab|geht|ging|handelt|gäbe) es|es (?:gibt|gab|geht|sich)|dies(?:e[mnrs]?)?(?: \w+)? (?:{_TEXTS})"
        r"|(?-i:das(?= (?:\w+e[sn]? )?[A-ZÄÖÜ])|(?<=[\w,] )(?:Sie|Ih[nr]\w*))",
        openers="und|aber|oder|was ist mit|wie steht es|wieso das|sonst noch",
        demonstratives=r"da(?:von|zu|für|gegen|rüber|ran|rin|raus|bei|nach|hin|mals|vor)|dort|daraufhin|dies(?:e[mnrs]?)?|jene[mnrs]?"
        r"|dessen|deren|(?:war|ist|hat|haben|wurde) das|(?:das|dann)(?= *[?.!]*$)",
        personal="er|sie|es|ihn|ihm|ihnen",
        possessives="seine?[mnrs]?|ihre?[mnrs]?",
        articles="der|die|das|den|dem|ein|eine[mnr]?",
    ),
    "es": AnaphoraWords(
        fixed=rf"lo (?:que|más|mismo|cual)|a lo largo|est[aeo]s?(?: \w+)? (?:{_TEXTS})",
        openers="¿?(?:y|pero|o|entonces|qué hay de|qué tal)",
        demonstratives=r"eso|esto|aquello|allí|ahí|es[ae]s?|est[ae]s?|aquel\w*|entonces(?= *[?.!]*$)",
        personal="él|ellas?|ellos|lo",
        possessives=r"sus?|les?(?!.* (?:al?|del?|el|l[ao]s?) )",
        articles="el|la|los|las|una?|al|del|qué",
    ),
    "fr": AnaphoraWords(
        fixed=rf"il y (?:a|avait|aura)|y a-t-il|s'agit-il|est-il (?:vrai|possible)|il (?:faut|s'agit)|ce(?:t|tte|s)?(?: \w+)? (?:{_TEXTS})",
        openers="et|mais|ou|alors|qu'en est-il",
        demonstratives=r"cela|ça|ceci|cel(?:ui|le|les)|ceux|cet|cette|ces|là|ce(?= [^\W\d_]{4,})|y (?:est|sont|ont)|alors(?= *[?.!]*$)",
        personal="(?!)",
        possessives="ils?|elles?|lui|leurs?|son|sa|ses",
        articles="le|la|les|un|une|du|des|quelle?s?",
    ),
}
_NAME = r"(?<=[^.?!:¿¡] )[A-ZÀ-Þ][\w'-]+"
_CLAUSE_BREAK = re.compile(
    r"[,;:]|\b(?:when|after|before|because|while|if|since|until|and|but|that|where|who|which|as|whether|than|how"
    r"|und|aber|als|nachdem|bevor|weil|während|wenn|dass|ob|pero|cuando|después|antes|porque|mientras|si|que|donde|quien)\b",
    re.IGNORECASE,
)
_ASKS_WHO = re.compile(r"(?:who|wer|quién|qui)\b(?! (?:is|are|was|were|ist|war|es|era|est|était)\b)", re.IGNORECASE)
_CONTENTLESS_WORDS = frozenset(  # a question of these alone is a follow-up
    """since give exactly more else detail details tell explain happen happened happens next again really example examples elaborate
    continue further come many much year day place way reason date month time sure go on ago soon long often whom say said
    mean think true right genau noch mehr weiter passierte geschah beispiel grund jahr bedeutet stimmt entonces
    más pasó exactamente año plus encore après année exactement passé ensuite pourquoi""".split()
)
_CJK_BACK = re.compile(
    rf"呢[？?]?$|^(?:那么|那|还有|然后|所以|另外|而且)|其他人|其余|此人|该(?:人|公司|书)|(?:后来|之后|接着|当时)[^，]{{0,6}}[？?]?$"
    rf"|(?:这|那)(?!些?(?:份|个|本|里)?(?:{_CJK_TEXTS}|些))|那(?:里|时|次)|それ|その|そこ|彼女?|그(?:는|녀|것|의|때)"
)
_CJK_PERSON = re.compile(r"(?<!其)(?<!吉)[他她它]")
_CJK_EMPTY = re.compile(
    r"为什么|怎么样|怎么回事|什么时候|哪里|多少|几|谁|何时|为何|还有|更多|具体|一点|详细|なぜ|いつ|どこ|どうして|誰|왜|언제|어디|누구"
    r"|[\s？?。！!，,吗呢了的是在有和请]"
)


def is_follow_up(question: str, names: Sequence[str] = ()) -> bool:
    """Whether a question needs the previous ones to be understood; `names` are the entities that it names."""
    if is_cjk(question):
        return _CJK_BACK.search(question) is not None or _is_follow_up_cjk(question, names)
    text = question.strip().replace("’", "'")
    language = detect_language(text)
    words = re.findall(r"[^\W\d_]+", text.lower())
    small = {*FUNCTION_WORDS_BY_LANGUAGE.get(language, FUNCTION_WORDS_BY_LANGUAGE["en"]).split(), *_CONTENTLESS_WORDS}
    if not names and not re.search(r"\d", text) and all(w in small for w in words):
        return True
    pointers = ANAPHORA_BY_LANGUAGE.get(language, ANAPHORA_BY_LANGUAGE["en"])
    opener = rf"^(?:{pointers.openers}|(?:the|der|die|das|el|la|les?)(?=(?: \w+){{1,3}}\?$))"
    return _find(opener, text) is not None or _has_unresolved_pointer(text, pointers, names)


def _has_unresolved_pointer(text: str, pointers: AnaphoraWords, names: Sequence[str]) -> bool:
    text = re.sub(rf"\b(?:{pointers.fixed})\b", lambda m: "·" * len(m.group()), text, flags=re.IGNORECASE)
    if _find(pointers.demonstratives, text):
        return True
    noun = rf"{_NAME}|(?i:\b(?:{pointers.articles}) (?!(?:did|does|is|was|were|has)\b)[^\W_]{{3,}})"
    nouns = [m.start() for m in re.finditer(noun, text)]
    nouns += [position for name in names if (position := text.lower().find(name.lower())) >= 0]
    first = min(nouns, default=len(text))
    possessive = _find(pointers.possessives, text)
    if possessive and possessive.start() < first and not (_ASKS_WHO.match(text) and possessive[0].lower() not in ("else", "the same")):
        return True
    personal = _find(pointers.personal, text)
    return personal is not None and not any(first < joint.start() for joint in _CLAUSE_BREAK.finditer(text, 1, personal.start()))


def _find(words: str, text: str) -> re.Match[str] | None:
    return re.search(rf"(?:^|\b)(?:{words})\b", text, re.IGNORECASE)


def _is_follow_up_cjk(question: str, names: Sequence[str]) -> bool:
    first_name = min((position for name in names if (position := question.find(name)) >= 0), default=len(question))
    if person := _CJK_PERSON.search(question):
        return person.start() < first_name
    return len(_CJK_EMPTY.sub("", question)) <= 1


MAX_REWRITTEN_CHARS = 200  # of a standalone question
CANDIDATE_ENTITIES = 200  # for opening questions
MAX_HISTORY_TURNS = 5  # newest turns that a follow-up may refer to
MAX_ADDED_CHARS = 80  # of a standalone question, beyond the question and the longest one before it
MAX_ANSWER_SHARE = 0.6  # of a standalone question that may stand in an answer in one piece
_LIST_ITEM = re.compile(r"(?:^|[.:：]\s+)(?:[-*•]|\d{1,2}[.)])\s")


def is_rewrite(made: str, asked: str, history: Sequence[Answer]) -> bool:
    """Whether a text can be the question that was asked, made standalone: it is no answer, no list and no earlier question."""
    if made == asked:
        return True
    before = [a.standalone_question or a.question for a in history]
    if made in before or _LIST_ITEM.search(made) or len(made) > len(asked) + max(map(len, before), default=0) + MAX_ADDED_CHARS:
        return False
    if asked.rstrip().endswith(("?", "？")) and not made.endswith(("?", "？")):
        return False
    same = (SequenceMatcher(None, unmarked_text(a), made, autojunk=False).find_longest_match().size for a in history)
    return max(same, default=0) <= MAX_ANSWER_SHARE * len(made)


async def rewrite_standalone(question: Question, history: Sequence[Answer], project: Project) -> str:
    """A follow-up as a standalone question; any other question is returned unchanged.

    A model that writes prose rewrites every question of a conversation; without one, a question that refers back gets the names of the last
    question with names. Where it wrote something else, the question stands as asked, with the one before it.
    """
    if question.style == "abstractive":
        turns = "\n".join(f"Q: {a.standalone_question or a.question}\nA: {unmarked_text(a)[:400]}" for a in history[-MAX_HISTORY_TURNS:])
        messages = load_prompt("abstractive/standalone", project.settings.prompts).fill(history=turns, question=question.text)
        script = await TokenDensity.measure(project.model.count, question.text, turns, language=project.settings.language)
        longest = script.max_chars(MAX_REWRITTEN_CHARS)
        rewritten = await try_ask_within_budget(
            question, project, "standalone", messages, standalone_line(longest), script.max_tokens(longest) + 8
        )
        if rewritten and rewritten.strip():
            made = collapse_whitespace(rewritten)
            made = made if is_rewrite(made, question.text, history[-MAX_HISTORY_TURNS:]) else question.text
            leans = is_follow_up(made, [n.text for n in named_entities(made, project)])
            return f"{made} ({history[-1].standalone_question or history[-1].question})" if leans else made
    if not is_follow_up(question.text, [n.text for n in named_entities(question.text, project)]):
        return question.text
    for turn in reversed(history[-MAX_HISTORY_TURNS:]):
        names = list(dict.fromkeys(n.text for n in named_entities(turn.standalone_question or turn.question, project)))
        proper = [n for n in names if n[0].isupper() or is_cjk(n)] or names
        if new := [n for n in proper if n.lower() not in question.text.lower()]:
            return f"{question.text}（{'、'.join(new)}）" if is_cjk(question.text) else f"{question.text} ({', '.join(new)})"
    return question.text


def suggest_questions(project: Project, history: Sequence[Answer] = (), *, about: str = "", n: int = 5) -> list[str]:
    """Return `n` questions that the index can answer: follow-ups of a conversation, questions about an entity, or opening questions."""
    named = [x.entity_id for x in named_entities(about, project)] if about else []
    for turn in reversed(history[-MAX_HISTORY_TURNS:]):
        named += [x.entity_id for x in named_entities(f"{turn.standalone_question or turn.question} {turn.answer[:500]}", project)]
    wanted = list(dict.fromkeys(named)) or browse.most_connected_entities(project.db, CANDIDATE_ENTITIES)
    names = [e.name for e in graph.entities(project.db, wanted) if e.type != "thing" or named]
    related = (graph.entities(project.db, [r.source_id, r.target_id]) for r in graph.relationships(project.db, wanted[:20]))
    pairs = islice(([e.name for e in ends] for ends in related if len(ends) == 2 and all(e.type != "thing" for e in ends)), n)
    chinese = bool(names) and is_cjk(names[0])
    general = "这些文档的主题是什么？" if chinese else "What are the main themes of these documents?"
    single = [f"文档中关于{name}说了什么？" if chinese else f"What is said about {name}?" for name in names]
    connected = [f"{a}和{b}有什么关系？" if chinese else f"How are {a} and {b} connected?" for a, b in pairs]
    questions = filter(None, chain.from_iterable(zip_longest(single, connected)))
    return [*[general] * (not (about or history)), *dict.fromkeys(questions)][:n]
