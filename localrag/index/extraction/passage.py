"""The text of a chunk with what the stages of its extraction ask of it, each worked out once."""

from collections.abc import Iterable
from functools import cached_property

from localrag.index.extraction.names.capitals import capitalised
from localrag.index.extraction.names.case import Case
from localrag.index.extraction.names.spans import find_name, longest_first, sentence_numbers
from localrag.text.plain import Span, chunk_sentences, is_cjk, squeeze
from localrag.text.words import chinese_phrases, chinese_words, is_english, noun_phrases


class Passage:
    """A chunk's `text`, and how its document writes its words (`case`)."""

    def __init__(self, text: str, case: Case) -> None:
        self.text, self.case = text, case
        self._spans: dict[str, list[Span]] = {}

    @cached_property
    def plain(self) -> str:
        """The text with page furniture and licences turned into spaces; all offsets stay."""
        return self.case.furniture.blank(self.text)

    @cached_property
    def capitalised(self) -> tuple[str, ...]:
        """The names in its plain text that are written with capitals, one for each place."""
        return tuple(capitalised(self.plain, self.case))

    @cached_property
    def flat(self) -> str:
        """The text on one line, as prompts show it."""
        return squeeze(self.text)

    @cached_property
    def cjk(self) -> bool:
        """Whether it is Chinese, Japanese or Korean."""
        return is_cjk(self.plain)

    @cached_property
    def english(self) -> bool:
        """Whether it is English."""
        return is_english(self.plain)

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Where its sentences are."""
        return chunk_sentences(self.text)

    @cached_property
    def chinese_words(self) -> tuple[tuple[str, str], ...]:
        """The words of a Chinese text outside of furniture, with their parts of speech: what takes most of its extraction's time."""
        return tuple(chinese_words(self.plain)) if self.cjk else ()

    @cached_property
    def noun_phrases(self) -> tuple[Span, ...]:
        """Where its noun phrases are, outside of furniture; of other languages than English and Chinese there are none."""
        return tuple(chinese_phrases(self.chinese_words) if self.cjk else noun_phrases(self.plain))

    def sentence(self, first: int, last: int | None = None) -> str:
        """The sentence of a number, or those from one to another, on one line."""
        return squeeze(self.text[self.sentences[first].start : self.sentences[first if last is None else last].end])

    @cached_property
    def middle(self) -> int:
        """The offset of the sentence that begins nearest to the middle of the text; 0 if there is only one sentence."""
        starts = [s.start for s in self.sentences[1:]]
        return min(starts, key=lambda start: abs(2 * start - len(self.text)), default=0)

    def halves(self) -> tuple["Passage", ...]:
        """The passage cut in two at `middle`; empty if it is a single sentence."""
        cut = self.middle
        return (Passage(self.text[:cut], self.case), Passage(self.text[cut:], self.case)) if cut else ()

    def spans(self, name: str) -> list[Span]:
        """Every place that writes `name`, see `find_name`."""
        if name not in self._spans:
            self._spans[name] = find_name(self.text, name)
        return self._spans[name]

    def spans_apart(self, names: Iterable[str]) -> dict[str, list[Span]]:
        """The places of each name, without those that stand inside a longer one's."""
        return longest_first({name: self.spans(name) for name in names})

    def in_order(self, names: Iterable[str]) -> list[str]:
        """The names by their first place; those that have none last."""
        return sorted(names, key=lambda n: min((s.start for s in self.spans(n)), default=len(self.text)))

    def numbers(self, names: Iterable[str]) -> dict[str, list[int]]:
        """For each name the numbers of the sentences that hold it, ascending."""
        return sentence_numbers({name: self.spans(name) for name in names}, self.sentences)
