"""Whether a number of four digits is a year, by the words around it."""

import re
from functools import cache

from localrag.query.question_analysis import FUNCTION_WORDS_BY_LANGUAGE

FIRST_YEAR, LAST_YEAR = 1100, 2100  # of years that are written alone
_WINDOW_CHARS = 40
_BEFORE = {
    "en": r"in|since|from|until|till|by|before|after|during|around|circa|about|of|early|mid|late|years?|through|spring|summer|autumn|fall"
    r"|winter|born|died|dated|established|founded|est\.|b\.|d\.|c\.|ca\.|fl\.|between|fiscal|act|early as|late as|christmas|easter|to",
    "de": r"jahre?s?|seit|bis|ab|vor|nach|um|gegen|ca\.|zwischen|von|vom|anfang|mitte|ende|sommer|winter|herbst|frühjahr|geboren"
    r"|geb\.|gest\.",
    "es": r"en|de|del|desde|hasta|año|años|entre|hacia|c\.|ca\.",
    "fr": r"en|de|depuis|jusqu['’]en|dès|vers|avant|après|entre|année|années|l['’]an|été|hiver|printemps|automne|fin|début|d['’]été",
    "it": r"nel|dal|al|del|anno|il|tra il|durante il|fino al",
    "pt": r"em|de|desde|até|ano|entre",
    "zh": "在|于|自|从|至",
    "nl": r"in|sinds|tot|van|jaar|vanaf|voor|na|rond",
}
_ALWAYS = r"[(（]|©|\(c\)"
_QUANTITY_OF = re.compile(
    r"\b(?:total|sum|number|population|amount|cost|price|value|rate|speed|distance|height|average|mean|maximum|minimum|score|record|salary"
    r"|rent|range|list|set|fleet|crew|group|army|force|majority|capacity|length|weight|payment|loan|debt|fine|grant|page|room|prize)\sof\s$",
    re.IGNORECASE,
)
_CHANGED_BY = re.compile(
    r"\b(?:multipl|divid|increas|decreas|reduc|ris|rose|fell|fall|grew|grow|exceed|scal|dropp)\w{0,5}\s(?:by|from|to)\s$", re.IGNORECASE
)
_NUMBERED = re.compile(
    r"\b(?:pages?|pp?\.|lines?|verses?|lots?|numbers?|nos?\.|chapters?|items?|vol(?:ume|\.)s?|rooms?|articles?|seiten?|s\.|nr\.|artikel|zimmer|raum"
    r"|páginas?|núm\.|n[ºo°]\.?|ports?|sections?|flights?|orders?|extension|bits?|bytes?|rows?|from\s(?:rose|fell))\s?$|[§#]\s?$",
    re.IGNORECASE,
)
_COUNTED_BEFORE = re.compile(
    r"\b(?:mit|über|auf|rund|fast|mehr als|etwa|gut|knapp|und|sowie|kostet|kosten|seite|nr\.|agenda|windows|office)\s$", re.IGNORECASE
)
_UNITS = frozenset(
    """
    attacks times words pages lines copies miles mile metres meters metre meter km m ft feet foot yards inches kg g t tons tonnes pounds
    dollars euros euro francs marks pesos rubles yen yuan cents hours hrs hour
    minutes seconds days weeks months years gmt utc bst est local bytes bits pixels px mb gb kb kw mw hp cc ml l litres liters percent per
    degrees calories points acres hectares kilómetros metros pesetas libras dólares páginas veces kilomètres mètres livres fois kilometer seiten uhr mal mark dollar pfund stück
    """.split()
)
_COUNTED = frozenset(  # that are no plurals by their form
    """
    people persons men women children votes voters soldiers members horses others species personas hombres mujeres hommes femmes soldats
    personnes chevaux menschen einwohner personen arbeiter soldaten
    """.split()
)
_NEXT_WORD = re.compile(r"[^\S\n]{1,3}([^\W\d_]+)")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:]\s+|\n\s*|[\"“„«]\s?)$")
_LABEL = re.compile(
    r"(?:^|[\n·|,;(]\s*)\W{0,3}(?:year|jahr|año|année|anno|ano|founded|established|born|died|built|date|datum|fecha|published|gegründet"
    r"|opened|closed|completed)\W{0,3}[:|]\s?\W{0,3}$",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"(?:^|\n)[ \t>]*(?:[-*+•][ \t]+|#{1,6}[ \t]+|\|[ \t]*)?(?:\*\*|__)?$")
_ENTRY = re.compile(r"(?:\*\*|__)?[ \t]*(?:[:–—|\t]|-[ \t])")
_HEADING = re.compile(r"(?:^|\n)[ \t]*#{1,6}[ \t]+$")
_DETERMINER = re.compile(r"(?:\b(?:the|a|an|his|her|its|their|our|my|this|that)|['’]s|\w{2}s['’])\s$", re.IGNORECASE)
_VERB = re.compile(r"\s(?:was|is|saw|brought|marked|had|began|ended|will|would)\b")
_OTHER_ERA = re.compile(r"\s?(?:AH|A\.H\.|AM|A\.M\.|BE|B\.E\.|H\.|AUC|SE)(?!\w)")
_OTHER_CALENDAR = re.compile(
    r"\b(?:ramadan|muharram|safar|rajab|sha['’]?ban|shawwal|dhu al-\w+|nisan|iyar|sivan|tammuz|elul|tishrei|tishri|kislev|tevet"
    r"|shevat|adar|farvardin|ordibehesht|khordad|mordad|shahrivar|mehr|aban|azar|bahman|esfand|heisei|showa|reiwa|meiji|anno hegirae)\s$",
    re.IGNORECASE,
)
_CITED = re.compile(r"\((?:e\.g\.,?\s|see\s)?[A-Z][\w'’.-]*(?:(?:,?\s(?:and|&|et al\.?|[A-Z][\w'’.-]*)){1,6})?,?\s$")


PAIRING_WORDS = ("and", "und", "y", "et")
_VAGUE = frozenset("about around by to etwa vers hacia über".split())
_COORDINATION = re.compile(r",?\s(?:and|or|und|oder|y|o|et|ou)\s|,\s|\s?&\s?")
_ARGUMENT = re.compile(r",\s?\d")
_RANGE_BEFORE = re.compile(r"\b(?:from|1\d{3}|20\d\d)\b.{0,30}$")
_CLAUSE_END = re.compile(r"[.,;)](?!\d)|\s*$")
_AFTER_WORD = re.compile(r"[a-zäöüß)]\s$|\($")
_DIGIT_BEFORE = re.compile(r"\d[,:;]?\s?$")
_BETWEEN = re.compile(r"\b(?:between|zwischen|entre)\s$", re.IGNORECASE)
_FROM = re.compile(r"(?:\b(?:from|between|in|during|years?|von|vom|de|del|du|desde|lasted|dauerte|duró)\s|\(|^|\n)$", re.IGNORECASE)


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(FUNCTION_WORDS_BY_LANGUAGE.get(language, FUNCTION_WORDS_BY_LANGUAGE["en"]).split())


@cache
def _before(language: str) -> re.Pattern[str]:
    if language == "zh":
        return re.compile(rf"(?:(?:{_BEFORE['zh']})\s?|{_ALWAYS}\s?)$")
    words = _BEFORE.get(language, _BEFORE["en"])
    return re.compile(
        rf"(?:(?<!\w)(?:{words})[\s-]+(?:the\syear\s|about\s|around\s|c\.\s?|ca\.\s?)?|{_ALWAYS}|(?<!\w)c\.\s?)$", re.IGNORECASE
    )


def is_counted(text: str, end: int, number: int, language: str) -> bool:
    """Whether the word behind a number says what it counts: a unit, or after a round number a plural."""
    following = _NEXT_WORD.match(text, end)
    if following is None:
        return False
    word = following[1].lower()
    if word in _UNITS or (word in _COUNTED and not re.search(r"\b[Ii]n\s$", text[max(0, end - 7) : end - 4])):
        return True
    if number == 0 or number % 50 or word in _function_words(language):
        return False
    return following[1][0].isupper() if language == "de" else word.endswith("s") and following[1][0].islower()


def is_year(text: str, start: int, end: int, language: str, last_year_end: int | None) -> bool:
    """Whether the number at `start` to `end` is a year. `last_year_end`: the end of the year before it in the text."""
    window = text[max(0, start - _WINDOW_CHARS) : start]
    if not FIRST_YEAR <= int(text[start:end]) <= LAST_YEAR or _is_something_else(text, window, start, end, language):
        return False
    between = text[last_year_end:start] if last_year_end is not None else ""
    if _is_entry(text, window, end) or _LABEL.search(window) or _COORDINATION.fullmatch(between):
        return True
    if _before(language).search(window):
        return _is_preposition_of_time(text, window, end, language)
    return (language == "de" and _is_bare_german_year(text, window, end)) or (language == "en" and _is_bare_english_year(text, window, end))


def _is_something_else(text: str, window: str, start: int, end: int, language: str) -> bool:
    """Whether the words around a number say that it counts, numbers something, is of another calendar, or belongs to a reference."""
    is_argument = window.endswith("(") and _ARGUMENT.match(text, end) is not None  # date(2022, 3, 28)
    if is_argument or _OTHER_ERA.match(text, end) or is_counted(text, end, int(text[start:end]), language):
        return True
    return any(pattern.search(window) for pattern in (_NUMBERED, _OTHER_CALENDAR, _CITED))


def _is_entry(text: str, window: str, end: int) -> bool:
    """Whether a number begins a line as the year of a chronicle: "1974: …", or is a heading."""
    return _LINE_START.search(window) is not None and (_ENTRY.match(text, end) is not None or _HEADING.search(window) is not None)


def _is_preposition_of_time(text: str, window: str, end: int, language: str) -> bool:
    """Whether a preposition before a number is one of time: not "a total of", "rose by", nor "about 1850 letters"."""
    if _QUANTITY_OF.search(window) or _CHANGED_BY.search(window):
        return False
    last = window.lower().rsplit(maxsplit=1)[-1] if window.strip() else ""
    following = _NEXT_WORD.match(text, end)
    if last in _VAGUE and following:
        return following[1].lower() in _function_words(language) or following[1][0].isupper()
    return last != "to" or _RANGE_BEFORE.search(window) is not None


def _is_bare_english_year(text: str, window: str, end: int) -> bool:
    """English says "1974 was a hard year" and "the 1974 election"."""
    if _SENTENCE_START.search(window):
        return _VERB.match(text, end) is not None
    return _DETERMINER.search(window) is not None and _NEXT_WORD.match(text, end) is not None


def _is_bare_german_year(text: str, window: str, end: int) -> bool:
    """German says "1974 kaufte die Stadt" and "wurde 1974 gegründet"; before what is counted stands a noun, with a capital."""
    if _COUNTED_BEFORE.search(window):
        return False
    if following := _NEXT_WORD.match(text, end):
        return following[1][0].islower()
    return _CLAUSE_END.match(text, end) is not None and _AFTER_WORD.search(window) is not None


def is_year_range(text: str, m: re.Match[str], first: int, last: int, language: str) -> bool:
    """Whether two numbers joined by a dash or by "to" or "and" are years. `m`: their match, with the joint as `to`."""
    window = text[max(0, m.start() - _WINDOW_CHARS) : m.start()]
    if first < FIRST_YEAR or last > LAST_YEAR or is_counted(text, m.end(), last, language):
        return False
    if _NUMBERED.search(window) or _CHANGED_BY.search(window) or _OTHER_ERA.match(text, m.end()):
        return False
    joint, is_short = m["to"].strip(), len(m["y2"]) == 2
    if joint == "/":
        return last == first + 1
    if joint in "–—-":
        is_month = is_short and joint == "-" and int(m["y2"]) <= 12 and not window.endswith("the ")  # 2010-11
        return not is_month and not _DIGIT_BEFORE.search(window)
    opening = _BETWEEN if joint in PAIRING_WORDS else _FROM
    return opening.search(window) is not None and not is_short
