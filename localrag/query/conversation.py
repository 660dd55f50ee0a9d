"""Conversations: follow-ups rewritten as standalone questions, and suggested questions.

A question is a follow-up if it has a pronoun or demonstrative that it does not resolve itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice

from localrag.llm.budgets import TokenDensity
from localrag.llm.grammar import question_lines, standalone_line
from localrag.llm.model import PERSON
from localrag.llm.prompts import load_prompt
from localrag.project import Project, resolve_answer_style
from localrag.query.abstractive import try_ask_within_budget, unmarked_text
from localrag.query.question import Question
from localrag.query.retriever import named_entities
from localrag.records import Answer
from localrag.store import browse, graph
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE, detect_language
from localrag.text.sentences import collapse_whitespace, is_cjk

ANY_CASE = re.IGNORECASE
# Words for documents: "these letters" refers to the collection, not to an earlier answer.
_TEXTS = (
    r"documents?|files?|texts?|notes|books?|novel|stor(?:y|ies)|reports?|papers|articles|letters|messages|minutes|records|reviews|interviews"
    r"|collection|archive|corpus|folder|dataset|dokument\w*|texte\w*|dateien|berichte?|briefe|buch|bücher|sammlung|archiv|unterlagen"
    r"|documentos?|textos?|archivos?|informes|cartas|libros?|fichiers?|textes?|rapports|lettres|livres?|documenti|testi|rapporti|libro"
    r"|relatórios|livros?"
)
_CJK_TEXTS = "信|记录|邮件|合同|手册|论文|文档|文件|资料|文本|文章|全书|书|报告|内容|故事|小说|笔记|材料|数据|档案"


@dataclass(frozen=True, slots=True)
class AnaphoraPatterns:
    """Patterns of a language for words that refer back.

    `fixed_phrases` are removed first: they look anaphoric but are not. `demonstratives` always refer out of the question; `personal`
    pronouns unless a clause before them has a noun (`connectives` begin the next clause); `possessives` unless a noun precedes them.
    `nouns` finds possible antecedents.
    """

    fixed_phrases: re.Pattern[str]
    openers: re.Pattern[str]
    demonstratives: re.Pattern[str]
    personal: re.Pattern[str]
    possessives: re.Pattern[str]
    connectives: re.Pattern[str]
    nouns: re.Pattern[str]


_NAME = r"(?<=[^.?!:¿¡] )[A-ZÀ-Þ][\w’'-]+"
_NEVER = re.compile(r"(?!)")

ANAPHORA_BY_LANGUAGE = {
    "en": AnaphoraPatterns(
        fixed_phrases=re.compile(
            rf"\b(?:this|these)(?: \w+)? (?:{_TEXTS})\b|\b(?:this|these|those) (?:year|month|week|days|morning|who|which|of|in|that)\b"
            r"|\bthose (?:who|which|of|in|that|with|from)\b|\bthat \w+(?: [\w']+){0,4} (?:when|who|which|where|that|of)\b"
            r"|\bit (?:takes?|took|rain\w*|snow\w*|be possible)\b|\b(?:is|was) it (?:true|possible|said|known|likely|clear"
            r"|necessary|important|that)\b"
            r"|\bit(?:'s| is| was) (?:true|possible|said|known|likely|clear|necessary|important)\b|\bwhat time is it\b"
            r"|\b(?:is|are|was|were|be|been|being|exists?) there\b(?! *[?.!]*$)|\bhow many [\w ]+ (?:are|were) there\b"
            r"|\bthere(?:'s| is| are| was| were| has been| have been)\b|\bat the same time\b|\bthe same [\w ]+ as\b|\bno one\b"
            r"|\bone another\b"
            r"|\bthe (?:\w+ )?ones? (?:who|that|which|to|of|in|from|with|whose)\b|\bwhich ones? of\b",
            ANY_CASE,
        ),
        openers=re.compile(r"^(?:and|but|or|what about|how about|how come|then|same|anything else|what else)\b", ANY_CASE),
        demonstratives=re.compile(
            r"\b(?:this|these|those)\b|\bthat *(?:[?.!,]|$)"
            r"|\b(?:of|about|after|before|for|with|from|by|like|to|in|on|at|since|is|was|are|were|did|does|do|has|had|will|would"
            r"|can|could|why|how"
            r"|explain|clarify|repeat|elaborate|besides|despite|under|during) that\b"
            r"|\bthere\b|\bthen *[?.!]*$|\b(?:by|since|until|and) then\b|\bafterwards\b *[?.!]*$"
            r"|\b(?:which|that|this|other|another|first|second|third|last|next|older|newer|better|former|latter|same|right) ones?\b"
            r"|\bthe ones? *(?:[?.!,]|$)"
            r"|\bthe (?:former|latter|others?)\b *[?.!]*|\baforementioned\b|\bmentioned (?:above|before|earlier)\b",
            ANY_CASE,
        ),
        personal=re.compile(
            r"\b(?:he|she|it|they|him|them|hers|theirs|himself|herself|itself|themselves)\b|\bher(?= *(?:[?.!,]|$))", ANY_CASE
        ),
        possessives=re.compile(r"\b(?:his|her|its|their)\b|\belse\b|\bthe same\b", ANY_CASE),
        connectives=re.compile(
            r"[,;:]|\b(?:when|after|before|because|while|if|since|until|although|and|but|that|where|who|which|as|whether|once|than|how)\b",
            ANY_CASE,
        ),
        nouns=re.compile(
            rf"{_NAME}|(?i:\b(?:the|an?|which|what|whose|every|each|any|no) (?!did\b|does\b|do\b|is\b|was\b|were\b|are\b"
            rf"|has\b)[^\W_]{{3,}})"
        ),
    ),
    "de": AnaphoraPatterns(
        fixed_phrases=re.compile(
            rf"(?i:\b(?:gibt|gab|geht|ging|handelt|gäbe) es\b|\bes (?:gibt|gab|geht|sich)\b|\bdies(?:e[mnrs]?)?(?: \w+)? (?:{_TEXTS})\b)"
            r"|\bdas(?= (?:\w+e[sn]? )?[A-ZÄÖÜ])|(?<=[a-zäöüß,] )(?:Sie|Ihre?[mnrs]?|Ihnen)\b"
        ),
        openers=re.compile(r"^(?:und|aber|oder|was ist mit|wie steht es|wieso das|sonst noch)\b", ANY_CASE),
        demonstratives=re.compile(
            r"\b(?:da(?:von|zu|für|gegen|rüber|ran|rin|rauf|raus|bei|nach|hin|mals|runter|vor)|dort|daraufhin|dies(?:e[mnrs]?)?"
            r"|jene[mnrs]?|dessen|deren)\b"
            r"|\b(?:war|ist|hat|haben|wurde|sagte|machte) das\b|\bdas *[?.!]*$|\bdann *[?.!]*$",
            ANY_CASE,
        ),
        personal=re.compile(r"\b(?:er|sie|es|ihn|ihm|ihr(?= *(?:[?.!,]|$))|ihnen)\b", ANY_CASE),
        possessives=re.compile(r"\b(?:seine?[mnrs]?|ihre?[mnrs]?)\b", ANY_CASE),
        connectives=re.compile(r"[,;:]|\b(?:und|aber|als|nachdem|bevor|weil|während|wenn|dass|ob|nach)\b", ANY_CASE),
        nouns=re.compile(r"(?<=[^.?!:] )[A-ZÄÖÜ][\w-]+"),
    ),
    "es": AnaphoraPatterns(
        fixed_phrases=re.compile(rf"\blo (?:que|más|mismo|cual)\b|\best[aeo]s?(?: \w+)? (?:{_TEXTS})\b", ANY_CASE),
        openers=re.compile(r"^¿?(?:y|pero|o|entonces|qué hay de|qué tal)\b", ANY_CASE),
        demonstratives=re.compile(r"\b(?:eso|esto|aquello|allí|ahí|allá|es[ae]s?|est[ae]s?|aquel\w*)\b|\bentonces *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:él|ellas?|ellos)\b", ANY_CASE),
        possessives=re.compile(r"\b(?:sus?|lo|les?)\b", ANY_CASE),
        connectives=re.compile(r"[,;:]|\b(?:y|pero|cuando|después|antes|porque|mientras|si|que|donde|quien)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:el|la|los|las|una?|al|del|qué) [^\W_]{{3,}})"),
    ),
    "fr": AnaphoraPatterns(
        fixed_phrases=re.compile(
            rf"\bil y (?:a|avait|aura)\b|\by a-t-il\b|\bs['’]agit-il\b|\best-il (?:vrai|possible)\b|\bil (?:faut|s['’]agit)\b"
            rf"|\bces?t?t?e?(?: \w+)? (?:{_TEXTS})\b",
            ANY_CASE,
        ),
        openers=re.compile(r"^(?:et|mais|ou|alors|qu['’]en est-il)\b", ANY_CASE),
        demonstratives=re.compile(
            r"\b(?:cela|ça|ceci|cel(?:ui|le|les)(?:-ci|-là)?|ceux|cet|cette|ces|là)\b|\bce(?= [^\W\d_]{4,})|\balors *[?.!]*$"
            r"|\b[yY] (?:a-t|est|sont|ont|vit|habit\w*)",
            ANY_CASE,
        ),
        personal=_NEVER,
        possessives=re.compile(r"\b(?:ils?|elles?|lui|leurs?|son|sa|ses)\b", ANY_CASE),
        connectives=_NEVER,
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:le|la|les|un|une|du|des|quelle?s?) [^\W_]{{3,}}|\b[ld]['’][^\W_]{{3,}})"),
    ),
    "it": AnaphoraPatterns(
        fixed_phrases=re.compile(rf"\bquest[aei](?: \w+)? (?:{_TEXTS})\b", ANY_CASE),
        openers=re.compile(r"^(?:e|ma|o|allora)\b", ANY_CASE),
        demonstratives=re.compile(r"\b(?:questo|questa|quello|quella|ciò|lì|là)\b|\ballora *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:lui|lei|loro|essi)\b", ANY_CASE),
        possessives=re.compile(r"\b(?:suoi?|sua|sue)\b", ANY_CASE),
        connectives=re.compile(r"[,;:]|\b(?:e|ma|quando|dopo|prima|perché|mentre|se|che)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:il|la|lo|i|gli|le|una?|del|della) [^\W_]{{3,}})"),
    ),
    "pt": AnaphoraPatterns(
        fixed_phrases=re.compile(rf"\bn?d?est[ae]s(?: \w+)? (?:{_TEXTS})\b", ANY_CASE),
        openers=re.compile(r"^(?:e|mas|ou|então)\b", ANY_CASE),
        demonstratives=re.compile(r"\b(?:isso|isto|aquilo|lá|ali|ess[ae]s?|aquel\w*)\b|\bentão *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:el[ea]s?)\b", ANY_CASE),
        possessives=re.compile(r"\b(?:seus?|suas?|del[ea]s?)\b", ANY_CASE),
        connectives=re.compile(r"[,;:]|\b(?:e|mas|quando|depois|antes|porque|enquanto|se|que)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:o|a|os|as|uma?|do|da|no|na) [^\W_]{{3,}})"),
    ),
}

_CONTENTLESS_WORDS = frozenset(  # a question of these alone is a follow-up
    """since give exactly more else detail details tell explain happen happened happens next again really example examples elaborate
    continue further come many much year day place way reason date month time sure go on ago soon long often whom say said
    mean think true right genau noch mehr weiter passierte geschah beispiel grund jahr bedeutet stimmt entonces
    más pasó exactamente año plus encore après année
    exactement passé ensuite pourquoi perché poi perch porquê por quê""".split()
)
_CJK_BACK = re.compile(
    rf"呢[？?]?$|^(?:那么|那|还有|然后|所以|另外|而且)|其他人|其余|此人|该(?:人|公司|书)|(?:后来|之后|接着|当时)[^，]{{0,6}}[？?]?$"
    rf"|(?:这|那)(?!些?(?:份|个|本|里)?(?:{_CJK_TEXTS}|些))|[那](?:里|时|次)|それ|その|そこ|彼女?|그(?:는|녀|것|의|때)"
)
_CJK_PERSON = re.compile(r"(?<!其)(?<!吉)[他她它]")
_CJK_EMPTY = re.compile(
    r"为什么|怎么样|怎么回事|什么时候|哪里|多少|几|谁|何时|为何|还有|更多|具体|一点|详细|なぜ|いつ|どこ|どうして|誰|왜|언제|어디|누구"
)


def is_follow_up(question: str, names: Sequence[str] = ()) -> bool:
    """Whether a question needs the previous ones to be understood; `names` are the entities that it names."""
    if is_cjk(question):
        return _is_follow_up_cjk(question, names)
    text = question.strip().replace("’", "'")
    language = detect_language(text)
    words = re.findall(r"[^\W\d_]+", text.lower())
    small = {*FUNCTION_WORDS_BY_LANGUAGE.get(language, FUNCTION_WORDS_BY_LANGUAGE["en"]).split(), *_CONTENTLESS_WORDS}
    if not names and not re.search(r"\d", text) and all(w in small for w in words):
        return True
    if (
        len(words) <= 4
        and text.endswith("?")
        and re.match(r"(?:the|his|her|their|its|any|der|die|das|el|la|le|les)\b", text, re.IGNORECASE)
    ):
        return True  # a noun without a verb
    pointers = ANAPHORA_BY_LANGUAGE.get(language, ANAPHORA_BY_LANGUAGE["en"])
    if pointers.openers.search(text):
        return True
    return _has_unresolved_pointer(text, pointers, names)


def _has_unresolved_pointer(text: str, pointers: AnaphoraPatterns, names: Sequence[str]) -> bool:
    text = pointers.fixed_phrases.sub(lambda m: "·" * len(m.group()), text)
    if pointers.demonstratives.search(text):
        return True
    nouns = [m.start() for m in pointers.nouns.finditer(text)]
    nouns += [position for name in names if (position := text.lower().find(name.lower())) >= 0]
    for m in pointers.possessives.finditer(text):
        asker = re.match(r"(?:who|wer|quién|qui)\b(?! (?:is|are|was|were|ist|war|es|era|est|était)\b)", text, re.IGNORECASE)
        asks_for_more = m.group().lower() in ("else", "the same")
        if (
            (asks_for_more or not asker)
            and not any(position < m.start() for position in nouns)
            and not (m.group().lower() in ("lo", "le", "les") and nouns)
        ):
            return True
    for m in pointers.personal.finditer(text):
        joins = [j.start() for j in pointers.connectives.finditer(text, 1, m.start())]
        if not any(position < join for position in nouns for join in joins):
            return True
    return False


def _is_follow_up_cjk(question: str, names: Sequence[str]) -> bool:
    first_name = min((position for name in names if (position := question.find(name)) >= 0), default=len(question))
    if _CJK_BACK.search(question):
        return True
    if person := _CJK_PERSON.search(question):
        return person.start() < first_name
    content = re.sub(r"[\s？?。！!，,吗呢了的是在有和请]", "", _CJK_EMPTY.sub("", question))
    return len(content) <= 1


MAX_REWRITTEN_CHARS = 200  # of a standalone question
CANDIDATE_ENTITIES, MAX_PAIRS = 200, 30  # for opening questions
MAX_HISTORY_TURNS = 5  # newest turns that a follow-up may refer to
MAX_ADDED_CHARS = 80  # of a standalone question, beyond the question and the longest one before it
MAX_ANSWER_SHARE = 0.6  # of a standalone question that may stand in an answer in one piece
_QUESTION_MARKS = ("?", "？")
_LIST_ITEM = re.compile(r"(?:^|[.:：]\s+)(?:[-*•]|\d{1,2}[.)])\s")


def is_rewrite(made: str, asked: str, history: Sequence[Answer]) -> bool:
    """Whether a text can be the question that was asked, made standalone: it is no answer, no list and no earlier question."""
    if made == asked:
        return True
    before = [a.standalone_question or a.question for a in history]
    if made in before or _LIST_ITEM.search(made) or len(made) > len(asked) + max(map(len, before), default=0) + MAX_ADDED_CHARS:
        return False
    if asked.rstrip().endswith(_QUESTION_MARKS) and not made.endswith(_QUESTION_MARKS):
        return False
    same = (SequenceMatcher(None, unmarked_text(a), made, autojunk=False).find_longest_match().size for a in history)
    return max(same, default=0) <= MAX_ANSWER_SHARE * len(made)


async def rewrite_standalone(question: Question, history: Sequence[Answer], project: Project) -> str:
    """A follow-up as a standalone question; any other question is returned unchanged.

    A model that writes prose is given every question of a conversation to rewrite; otherwise the names of the last question with names are
    appended to a question that refers back. Where it wrote something else, the question stands as asked, with the one before it.
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
        new = [n for n in proper if n.lower() not in question.text.lower()]
        if new:
            return f"{question.text}（{'、'.join(new)}）" if is_cjk(question.text) else f"{question.text} ({', '.join(new)})"
    return question.text


async def suggest_questions(project: Project, history: Sequence[Answer], *, about: str = "", n: int = 5) -> list[str]:
    """`n` questions that the index can answer: follow-ups of a conversation, questions about an entity, or opening questions."""
    names = _subjects(project, history, about)
    if await resolve_answer_style(project) == "abstractive" and names:
        written = await _write_questions(project, history, names, n)
        if written:
            return written[:n]
    return _worded(names, n, start=not about and not history)


def suggest_opening_questions(project: Project, *, n: int = 5) -> list[str]:
    """`n` opening questions that the index can answer, composed without a model."""
    return _worded(_subjects(project, (), ""), n, start=True)


def _worded(names: Sequence[tuple[str, str]], n: int, *, start: bool) -> list[str]:
    chinese = all(is_cjk(a) for a, _ in names) if names else False
    pair = "{}和{}有什么关系？" if chinese else "How are {} and {} connected?"
    questions = [pair.format(a, b) if b else f"What is said about {a}?" for a, b in names]
    general = "这些文档的主题是什么？" if chinese else "What are the main themes of these documents?"
    return [*[general] * start, *dict.fromkeys(questions)][:n]


def _subjects(project: Project, history: Sequence[Answer], about: str) -> list[tuple[str, str]]:
    """Subjects of questions: pairs of strongly related entities, or single ones ("" as the second)."""
    named = [x.entity_id for x in named_entities(about, project)] if about else []
    for turn in reversed(history[-MAX_HISTORY_TURNS:]):
        named += [x.entity_id for x in named_entities(f"{turn.standalone_question or turn.question} {turn.answer[:500]}", project)]
    wanted = list(dict.fromkeys(named)) or browse.most_connected_entities(project.db, CANDIDATE_ENTITIES)
    entities = {e.id: e for e in graph.entities(project.db, wanted) if e.type != "thing" or named}
    chosen = dict.fromkeys(list(entities)[:20])
    ends = (graph.entities(project.db, [r.source_id, r.target_id]) for r in graph.relationships(project.db, chosen))
    connected = ((e[0].name, e[1].name) for e in ends if len(e) == 2 and all(x.type != "thing" for x in e))
    pairs = list(islice(connected, MAX_PAIRS))
    singles = [(e.name, "") for e in list(entities.values())[:10]]
    mixed = [p for candidates in zip(singles, pairs, strict=False) for p in candidates]
    return list(dict.fromkeys([*mixed, *pairs, *singles]))


async def _write_questions(project: Project, history: Sequence[Answer], names: Sequence[tuple[str, str]], n: int) -> list[str]:
    subjects = "\n".join(f"- {a}" + (f" and {b}" if b else "") for a, b in names[:15])
    asked = "\n".join(f"- {a.standalone_question or a.question}" for a in history[-MAX_HISTORY_TURNS:]) or "none"
    messages = load_prompt("abstractive/questions", project.settings.prompts).fill(subjects=subjects, asked=asked, n=n)
    reply = await project.model.ask("questions", messages, max_tokens=60 * n, grammar=question_lines(n), priority=PERSON)
    return [collapse_whitespace(q) for q in reply.text.splitlines() if q.strip()]
