"""pysbd's rules for sentences, applied in time that grows with the text.

pysbd looks for every sentence from the beginning of the text, with a pattern compiled for each, and puts an abbreviation or the mark of a
list right once for every time it occurs. Here each is done once; the sentences are the same (tests/test_splitter.py holds both side by
side).
"""

import re
import warnings
from functools import cache
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the library's regular expressions predate today's warnings
    from pysbd.languages import Language
    from pysbd.lists_item_replacer import ListItemReplacer
    from pysbd.processor import Processor
    from pysbd.utils import Text


def split(text: str, language: str) -> list[tuple[int, int]]:
    """Where the sentences of a paragraph are, each with the whitespace after it, by the rules of `language` (en or zh).

    They may overlap or leave something out where the rules lose their place.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        sentences = _Processor(text, Language.get_language_code(language), char_span=True).process()
    spans = []
    at = 0
    looked: dict[str, int] = {}
    for sentence in sentences:
        start, end = _place(text, sentence, at, looked)
        if start >= 0:
            spans.append((start, end))
            at = end
    return spans


def _place(text: str, sentence: str, at: int, looked: dict[str, int]) -> tuple[int, int]:
    """Where a sentence stands, with the whitespace after it: the first place that ends behind `at`, of those that do not overlap each
    other. Its start is -1 where there is none. `looked`: how far each sentence was looked for.
    """
    start = text.find(sentence, max(0, at - len(sentence) + 1), at + len(sentence))
    end = _after(text, start + len(sentence))
    if start == at:
        return start, end
    start, end = 0, looked.get(sentence, 0)
    while start >= 0 and end <= at:
        start = text.find(sentence, end)
        looked[sentence], end = end, _after(text, start + len(sentence))
    return start, end


def _after(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere


_SPACE = re.compile(r"\s*")
_LISTED = re.compile(r"[.)](?:(?<=[a-z\d]\))|(?<=\d\.)(?=[\s)])|(?<=\s[a-z]\.)|(?<=^[a-z]\.))|[♨☝]")  # what may be the mark of a list
_STAND_INS = re.compile("[∯♬♭ᓰᓱᓳᓴᓷᓸ☉☇☈☄✂⌬⎋ȸȹƪ♟♝☏∮]")  # characters that pysbd puts for others, and takes back


class _Lists(ListItemReplacer):  # type: ignore[misc]
    """Each number and each letter is marked once: a second time finds it marked, or adds empty lines. Lines end in \\r."""

    text: str

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._done: set[tuple[object, ...]] = set()

    def substitute_found_list_items(self, regex: str, each: int, strip: bool, replacement: str) -> None:
        if self._is_new(regex, each):
            super().substitute_found_list_items(regex, each, strip, replacement)

    def replace_correct_alphabet_list(self, a: str, parens: bool) -> str:
        return str(super().replace_correct_alphabet_list(a, parens) if self._is_new(a, parens) else self.text)

    def add_line_breaks_for_numbered_list_with_periods(self) -> None:
        if "♨" in self.text and not self._broken("♨") and not re.search(r"for\s\d{1,2}♨\s[a-z]", self.text):
            self.text = Text(self.text).apply(self.SpaceBetweenListItemsFirstRule, self.SpaceBetweenListItemsSecondRule)

    def add_line_breaks_for_numbered_list_with_parens(self) -> None:
        if "☝" in self.text and not self._broken("☝"):
            self.text = Text(self.text).apply(self.SpaceBetweenListItemsThirdRule)

    def _broken(self, mark: str) -> bool:
        """Whether a line ends somewhere between two marks, and something stands on either side of its end."""
        return self.text.find("\r", self.text.find(mark) + 2, self.text.rfind(mark) - 1) >= 0

    def _is_new(self, *what: object) -> bool:
        new = what not in self._done
        self._done.add(what)
        return new


class _Processor(Processor):  # type: ignore[misc]
    """pysbd's steps with these lists and abbreviations."""

    text: str

    def process(self) -> list[str]:
        self.text = self.text.replace("\n", "\r")
        if _LISTED.search(self.text):
            self.text = _Lists(self.text).add_line_break()
        self.replace_abbreviations()
        self.replace_numbers()
        self.replace_continuous_punctuation()
        self.replace_periods_before_numeric_references()
        rules = (self.lang.Abbreviation.WithMultiplePeriodsAndEmailRule, self.lang.GeoLocationRule, self.lang.FileFormatRule)
        self.text = Text(self.text).apply(*rules)
        return list(self.split_into_segments())

    def split_into_segments(self) -> list[str]:
        self.check_for_parens_between_quotes()
        rules = (self.lang.SingleNewLineRule, *self.lang.EllipsisRules.All)
        lines = (Text(line).apply(*rules) for line in self.text.split("\r") if line)
        found: list[str] = []
        for sentence in (s for line in lines for s in self.check_for_punctuation(line) if s):
            plain = Text(sentence).apply(*self.lang.SubSymbolsRules.All) if _STAND_INS.search(sentence) else sentence
            parts = self.post_process_segments(plain)
            found += [p for p in ([parts] if isinstance(parts, str) else parts) if p]
        return [Text(s).apply(self.lang.SubSingleQuoteRule) if "⎋" in s else s for s in found]

    def post_process_segments(self, txt: str) -> str | list[str]:
        if _STAND_INS.search(txt):
            txt = Text(txt).apply(*self.lang.ReinsertEllipsisRules.All)
        if re.search(self.lang.QUOTATION_AT_END_OF_SENTENCE_REGEX, txt):
            return re.split(self.lang.SPLIT_SPACE_QUOTATION_AT_END_OF_SENTENCE_REGEX, txt)
        return txt.replace("\n", "").strip()

    def abbreviations_replacer(self) -> Any:
        return _abbreviations(self.lang)(self.text, self.lang)


@cache
def _abbreviations(language: Any) -> Any:
    """The class that keeps a language's abbreviations from ending sentences."""
    # Abbreviations with a period inside are patterns of pysbd's: "e.g" stands for "eng" as well.
    all_of_them = [(a, a if "." in a else a + ".", re.compile(rf"(?:^|\s|\r|\n){a}", re.IGNORECASE)) for a in _stripped(language)]

    class Abbreviations(language.AbbreviationReplacer):  # type: ignore[misc]
        def search_for_abbreviations_in_string(self, text: str) -> str:
            if "." not in text:
                return text
            lowered = text.lower()
            for abbreviation, written, pattern in all_of_them:
                if written in lowered:
                    braced = re.findall(rf"(?<={{{re.escape(abbreviation)}}} ).{{1}}", text) if "{" in text else []
                    found = dict.fromkeys((m, (braced[n : n + 1] or [""])[0].isupper()) for n, m in enumerate(pattern.findall(text)))
                    for match, upper in found:
                        text = self.scan_for_replacements(text, match, 0, ["A" if upper else ""])
            return text

        def replace_abbreviation_as_sentence_boundary(self) -> str:
            return str(super().replace_abbreviation_as_sentence_boundary()) if "∯" in self.text else self.text

    return Abbreviations


def _stripped(language: Any) -> list[str]:
    return [a.strip() for a in language.Abbreviation.ABBREVIATIONS]
