"""What a prompt asks for in words is allowed by its grammar, and what a server wrote in them is kept."""

import pytest
from llguidance import LLMatcher, LLTokenizer

from localrag.engine.remote.replies import GrammarFilter
from localrag.llm.grammar import single_line, standalone_line
from tests.question_lines import question_lines

SENTENCES = [
    "Obsidian Sync syncs notes. It needs a subscription plan.",
    'The plan is called "Sync Plus" (10 GB); see [the page] of item #4 and *this* snake_case_name: yes!',
    "Ist das so?",
    "造船厂在1953年被出售。",
]


def kept(grammar, answer):
    """What is kept of a server's answer."""
    taken = GrammarFilter(grammar)
    taken.add(answer)
    return taken.finish()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_description_is_whole_sentences(sentence):
    """With full stops, quotation marks, brackets, numbers and markup: the local model may write them, and a server's are kept."""
    matcher = LLMatcher(LLTokenizer("byte"), single_line(200).next_grammar(""), log_level=0)

    assert matcher.consume_tokens(list(f"{sentence}\n".encode()))
    assert matcher.is_accepting()
    assert kept(single_line(200), sentence) == f"{sentence}\n"


def test_a_description_of_several_lines_or_beyond_its_limit_is_kept_as_far_as_it_goes():
    """It is put on one line and ends with its last whole sentence; nothing but an empty one is refused."""
    assert kept(single_line(60), '{"line": " The Skua is a ferry.\\nShe sails. "}') == "The Skua is a ferry. She sails.\n"
    assert kept(single_line(40), '{"line": "The Skua is a ferry. She sails to Vardby on Mondays."}') == "The Skua is a ferry.\n"


@pytest.mark.parametrize(
    ("grammar", "line"),
    [
        (standalone_line(200), 'What does "Prune" do to [[Sync]] in *Settings*?'),
        (question_lines(1), 'What does "Prune" do to issue #4 in *Settings*?'),
    ],
)
def test_a_line_may_quote(grammar, line):
    """Quotation marks, brackets and markup inside a line are no reason to refuse it."""
    assert kept(grammar, line) == f"{line}\n"
