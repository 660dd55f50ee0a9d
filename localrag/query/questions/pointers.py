"""The words of each language that point out of a question, for `leaning`."""

import re
from dataclasses import dataclass

from localrag.query.questions.question_words import WHOLE

ANY_CASE = re.IGNORECASE
_WHOLE = "|".join(w.replace("*", r"\w*") for w in WHOLE.split())


@dataclass(frozen=True, slots=True)
class Pointers:
    """The words of a language that point somewhere.

    `idle` are taken out first: they look like pointers and point nowhere. `starts` and `back` always point out of the question; `personal`
    words unless a noun stands in a clause before them (`joins` begins the next clause), `owning` ones unless a noun stands before them;
    `nouns` finds what such a word may mean.
    """

    idle: re.Pattern[str]
    starts: re.Pattern[str]
    back: re.Pattern[str]
    personal: re.Pattern[str]
    owning: re.Pattern[str]
    joins: re.Pattern[str]
    nouns: re.Pattern[str]


_NAME = r"(?<=[^.?!:¿¡] )[A-ZÀ-Þ][\w’'-]+"
_NEVER = re.compile(r"(?!)")

LANGUAGES = {
    "en": Pointers(
        idle=re.compile(
            rf"\b(?:this|these)(?: \w+)? (?:{_WHOLE})\b|\b(?:this|these|those) (?:year|month|week|days|morning|who|which|of|in|that)\b"
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
        starts=re.compile(r"^(?:and|but|or|what about|how about|how come|then|same|anything else|what else)\b", ANY_CASE),
        back=re.compile(
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
        owning=re.compile(r"\b(?:his|her|its|their)\b|\belse\b|\bthe same\b", ANY_CASE),
        joins=re.compile(
            r"[,;:]|\b(?:when|after|before|because|while|if|since|until|although|and|but|that|where|who|which|as|whether|once|than|how)\b",
            ANY_CASE,
        ),
        nouns=re.compile(
            rf"{_NAME}|(?i:\b(?:the|an?|which|what|whose|every|each|any|no) (?!did\b|does\b|do\b|is\b|was\b|were\b|are\b"
            rf"|has\b)[^\W_]{{3,}})"
        ),
    ),
    "de": Pointers(
        idle=re.compile(
            rf"(?i:\b(?:gibt|gab|geht|ging|handelt|gäbe) es\b|\bes (?:gibt|gab|geht|sich)\b|\bdies(?:e[mnrs]?)?(?: \w+)? (?:{_WHOLE})\b)"
            r"|\bdas(?= (?:\w+e[sn]? )?[A-ZÄÖÜ])|(?<=[a-zäöüß,] )(?:Sie|Ihre?[mnrs]?|Ihnen)\b"
        ),
        starts=re.compile(r"^(?:und|aber|oder|was ist mit|wie steht es|wieso das|sonst noch)\b", ANY_CASE),
        back=re.compile(
            r"\b(?:da(?:von|zu|für|gegen|rüber|ran|rin|rauf|raus|bei|nach|hin|mals|runter|vor)|dort|daraufhin|dies(?:e[mnrs]?)?"
            r"|jene[mnrs]?|dessen|deren)\b"
            r"|\b(?:war|ist|hat|haben|wurde|sagte|machte) das\b|\bdas *[?.!]*$|\bdann *[?.!]*$",
            ANY_CASE,
        ),
        personal=re.compile(r"\b(?:er|sie|es|ihn|ihm|ihr(?= *(?:[?.!,]|$))|ihnen)\b", ANY_CASE),
        owning=re.compile(r"\b(?:seine?[mnrs]?|ihre?[mnrs]?)\b", ANY_CASE),
        joins=re.compile(r"[,;:]|\b(?:und|aber|als|nachdem|bevor|weil|während|wenn|dass|ob|nach)\b", ANY_CASE),
        nouns=re.compile(r"(?<=[^.?!:] )[A-ZÄÖÜ][\w-]+"),
    ),
    "es": Pointers(
        idle=re.compile(rf"\blo (?:que|más|mismo|cual)\b|\best[aeo]s?(?: \w+)? (?:{_WHOLE})\b", ANY_CASE),
        starts=re.compile(r"^¿?(?:y|pero|o|entonces|qué hay de|qué tal)\b", ANY_CASE),
        back=re.compile(r"\b(?:eso|esto|aquello|allí|ahí|allá|es[ae]s?|est[ae]s?|aquel\w*)\b|\bentonces *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:él|ellas?|ellos)\b", ANY_CASE),
        owning=re.compile(r"\b(?:sus?|lo|les?)\b", ANY_CASE),
        joins=re.compile(r"[,;:]|\b(?:y|pero|cuando|después|antes|porque|mientras|si|que|donde|quien)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:el|la|los|las|una?|al|del|qué) [^\W_]{{3,}})"),
    ),
    "fr": Pointers(
        idle=re.compile(
            rf"\bil y (?:a|avait|aura)\b|\by a-t-il\b|\bs['’]agit-il\b|\best-il (?:vrai|possible)\b|\bil (?:faut|s['’]agit)\b"
            rf"|\bces?t?t?e?(?: \w+)? (?:{_WHOLE})\b",
            ANY_CASE,
        ),
        starts=re.compile(r"^(?:et|mais|ou|alors|qu['’]en est-il)\b", ANY_CASE),
        back=re.compile(
            r"\b(?:cela|ça|ceci|cel(?:ui|le|les)(?:-ci|-là)?|ceux|cet|cette|ces|là)\b|\bce(?= [^\W\d_]{4,})|\balors *[?.!]*$"
            r"|\b[yY] (?:a-t|est|sont|ont|vit|habit\w*)",
            ANY_CASE,
        ),
        personal=_NEVER,
        owning=re.compile(r"\b(?:ils?|elles?|lui|leurs?|son|sa|ses)\b", ANY_CASE),
        joins=_NEVER,
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:le|la|les|un|une|du|des|quelle?s?) [^\W_]{{3,}}|\b[ld]['’][^\W_]{{3,}})"),
    ),
    "it": Pointers(
        idle=re.compile(rf"\bquest[aei](?: \w+)? (?:{_WHOLE})\b", ANY_CASE),
        starts=re.compile(r"^(?:e|ma|o|allora)\b", ANY_CASE),
        back=re.compile(r"\b(?:questo|questa|quello|quella|ciò|lì|là)\b|\ballora *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:lui|lei|loro|essi)\b", ANY_CASE),
        owning=re.compile(r"\b(?:suoi?|sua|sue)\b", ANY_CASE),
        joins=re.compile(r"[,;:]|\b(?:e|ma|quando|dopo|prima|perché|mentre|se|che)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:il|la|lo|i|gli|le|una?|del|della) [^\W_]{{3,}})"),
    ),
    "pt": Pointers(
        idle=re.compile(rf"\bn?d?est[ae]s(?: \w+)? (?:{_WHOLE})\b", ANY_CASE),
        starts=re.compile(r"^(?:e|mas|ou|então)\b", ANY_CASE),
        back=re.compile(r"\b(?:isso|isto|aquilo|lá|ali|ess[ae]s?|aquel\w*)\b|\bentão *[?.!]*$", ANY_CASE),
        personal=re.compile(r"\b(?:el[ea]s?)\b", ANY_CASE),
        owning=re.compile(r"\b(?:seus?|suas?|del[ea]s?)\b", ANY_CASE),
        joins=re.compile(r"[,;:]|\b(?:e|mas|quando|depois|antes|porque|enquanto|se|que)\b", ANY_CASE),
        nouns=re.compile(rf"{_NAME}|(?i:\b(?:o|a|os|as|uma?|do|da|no|na) [^\W_]{{3,}})"),
    ),
}
