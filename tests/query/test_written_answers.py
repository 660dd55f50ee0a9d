"""Answers that a model writes, replayed by a server: their Markdown is kept, their claims are attributed, and their faults are mended."""

import asyncio
import json

import pytest

from localrag.asking import answer_question
from localrag.project import open_for_query
from localrag.query.question import AnswerCallbacks, QueryOptions
from localrag.records import SUPPORTED_STATE, UNSUPPORTED_STATE, Answer
from tests.query.made import index_of
from tests.servers import Server, event, llama

HANDBOOK = """# Handbook

## Vacation

Every employee gets 20 days of paid vacation in a year. Interns get 5 days of paid vacation in a year.

## Salaries

| Role | Salary | Bonus |
|------|--------|-------|
| Programmer | 85,000 | 10 % |
| Lead Programmer | 112,000 | 15 % |

## Deployment

Write this unit file, then start the server:

```ini
[Service]
ExecStart=/usr/bin/datasette serve
Restart=always
```

Salaries are reviewed twice a year, in June and December.
"""
LEAVE, PAY, UNIT = "How much vacation is there?", "What do the roles earn?", "How is the server deployed?"
GERMAN = "Wie viel Urlaub bekommt jeder Angestellte?"
FOREIGN = "Where do whales go?"
SHORTER = "Summarize that in one sentence."
WRITTEN = {
    LEAVE: "Every employee gets **20 days** of paid vacation in a year [1].\n\n- Interns get 5 days of paid vacation in a year [99]\n"
    "- Whales migrate north to feed [1]\n\n**Sources:**\n[1] forged.md › Nothing\n",
    PAY: "## Pay\n\n| Role | Salary |\n|---|---|\n| Programmer | 85,000 [1] |\n| Lead Programmer | 99,000 [1] |\n\n"
    "Salaries are reviewed once a year.",
    UNIT: "Write this unit file:\n\n```ini\n[Service]\nExecStart=/usr/bin/datasette serve\nRestart=always\n```\n\nSee ![p](http://evil.example/p.png).",
    FOREIGN: "Whales migrate north to feed. Submarines follow them under the ice. Nobody has counted them.",
    SHORTER: "Every employee gets 20 days of paid vacation in a year. [1]",
}


class Writer:
    """Replays what was written for a question; fails on any other. `again`: for a question that is asked a second time."""

    def __init__(self, again=()):
        self.again = dict(again)

    def __call__(self, body):
        prompt = body["messages"][-1]["content"]
        question = next((q for q in (*WRITTEN, GERMAN) if f"Question: {q}" in prompt), None)
        if question is None or "[1] handbook.md › " not in prompt:
            return 500
        repeated = prompt.count("\n\n", prompt.index("Question: ")) > 1
        said = (
            self.again.get(question) if repeated else WRITTEN.get(question) or "Every employee gets 20 days of paid vacation in a year. [1]"
        )
        return json.dumps(said) if isinstance(said, dict) else said


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with index_of(tmp_path_factory.mktemp("written"), {"handbook.md": HANDBOOK}, reports=False) as project:
        return project.folder


@pytest.fixture
def ask(folder):
    """A function that asks a server with a window; gives the answer, what was shown of it, and the prompts."""

    def asked(question, writer=None, window=8192, history=(), **options):
        shown = []
        with Server(writer or Writer(), llama("writer", window=window, slots=1, n_params=4_000_000_000)) as server:
            with open_for_query(folder, model=f"{server.url}#writer", logs=False) as project:
                made = asyncio.run(
                    answer_question(question, project, QueryOptions("basic", **options), AnswerCallbacks(on_text=shown.append), history)
                )
            return made, "".join(shown), [body["messages"] for body in server.bodies]

    return asked


def states(made):
    return [(made.answer[s.start : s.end].strip(), s.state) for s in made.sentences]


def test_paragraphs_and_lists_stay_and_each_claim_has_its_state(ask):
    """Bold words, the list and the blank lines are as written; a wrong number cites nothing; a forged list of sources is left out."""
    made, shown, prompts = ask(LEAVE)

    assert made.answer == shown
    assert made.answer.startswith("Every employee gets **20 days** of paid vacation in a year. [1]\n\n- Interns get 5 days")
    assert "forged" not in made.answer
    assert [state for _, state in states(made)] == [SUPPORTED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE]
    assert made.answer.endswith("north to feed [unsupported]")
    assert [c.quote for c in made.citations] == [
        "Every employee gets 20 days of paid vacation in a year.",
        "Interns get 5 days of paid vacation in a year.",
    ]
    assert "Answer in English." in prompts[0][-1]["content"]


def test_a_table_keeps_its_rows_and_marks_each(ask):
    """A row's marks stand in its last cell; a row with another number than the source shows the source's; heading and head have none."""
    made, *_ = ask(PAY)

    lines = made.answer.splitlines()
    assert lines[:5] == ["## Pay", "", "| Role | Salary |", "|---|---|", "| Programmer | 85,000 [1] |"]
    assert lines[5].startswith("| Lead Programmer | 99,000 ≠ “/ Lead Programmer / 112,000 / 15 % /” [contradicted][")
    assert lines[5].endswith(" |")
    assert lines[7].startswith("Salaries are reviewed once a year. ≠ “Salaries are reviewed twice a year")


def test_code_is_kept_and_cited_below_its_block(ask):
    """The lines of a code block are as written, and its mark stands on a line of its own."""
    made, *_ = ask(UNIT)

    assert "```ini\n[Service]\nExecStart=/usr/bin/datasette serve\nRestart=always\n```\n[1]" in made.answer
    assert states(made)[0][1] == SUPPORTED_STATE


def test_strict_keeps_what_is_supported_with_its_place(ask):
    """An unproved item, a contradicted row and an empty heading are left out; the rest of the list and of the table stays."""
    made, shown, _ = ask(LEAVE, strict=True)
    table, *_ = ask(PAY, strict=True)

    assert made.answer == shown
    assert "Whales" not in made.answer
    assert "- Interns get 5 days" in made.answer
    assert [line for line in table.answer.splitlines() if "Lead" in line or "once" in line] == []
    assert table.answer.count("|---|---|") == 1
    assert table.contradicted == 2


def test_an_answer_in_another_language_is_asked_for_again(ask):
    """The question's language is named; an answer in another one is not shown, and the second one is."""
    made, shown, prompts = ask(GERMAN, Writer({GERMAN: "Jeder Angestellte bekommt im Jahr 20 Tage bezahlten Urlaub. [1]"}))

    assert len(prompts) == 2
    assert "Answer in German." in prompts[0][-1]["content"]
    assert "Write the whole answer in German." in prompts[1][-1]["content"]
    assert made.answer == shown
    assert made.answer.startswith("Jeder Angestellte bekommt")


@pytest.mark.ci
def test_an_answer_that_no_source_bears_out_is_called_that(ask):
    """Its note says so before it counts sentences; an answer with a supported sentence has no such note."""
    foreign, *_ = ask(FOREIGN)
    partly, *_ = ask(LEAVE)

    assert foreign.note.startswith("Nothing in the sources bears out most of this answer")
    assert "bears out" not in partly.note


def test_a_question_about_the_last_answer_is_asked_with_it(ask):
    """It is not rewritten; its sources are those of the question before it, and the conversation is in the prompt."""
    made, _, (messages,) = ask(SHORTER, history=[Answer(LEAVE, "Employees get 20 days, interns 5.", "basic")])

    assert [m["content"] for m in messages[1:3]] == [LEAVE, "Employees get 20 days, interns 5."]
    assert f"Question: {SHORTER}\n(This is about your last answer: “Employees get 20 days, interns 5.”)" in messages[-1]["content"]
    assert "Every employee gets 20 days" in messages[-1]["content"]
    assert (made.question, made.standalone_question) == (SHORTER, LEAVE)
    assert [state for _, state in states(made)] == [SUPPORTED_STATE]


@pytest.mark.parametrize("said", ["", "   \n\n", "[1]", "```\n```"])
def test_a_model_that_writes_nothing_leaves_the_passages(ask, said):
    """Without a word of the model the answer is what a model is not needed for; the note says that it wrote nothing."""
    made, *_ = ask(LEAVE, lambda _: said)

    assert "20 days of paid vacation" in made.answer
    assert made.citations
    assert ("the model wrote nothing" in made.note) == (not said.strip())


def test_a_server_that_breaks_off_leaves_whole_sentences(ask):
    """What was complete before the token limit is kept."""
    end = b"data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": "length"}]}).encode() + b"\n\n"
    made, *_ = ask(LEAVE, lambda _: event("Every employee gets 20 days of paid vacation in a year. Interns get 5 days of pa") + end)

    assert made.answer == "Every employee gets 20 days of paid vacation in a year. [1]"
    assert "cut off at its limit" in made.note


def test_the_sources_of_a_prompt_keep_their_lines_and_say_where_they_stand(ask):
    """Each is below its number, file and headings; tables and code have their line breaks; the fixed text comes first."""
    _, _, ((system, user),) = ask(UNIT)

    assert "[1] handbook.md › Handbook › Deployment\n" in user["content"]
    assert "\n```ini\n[Service]\nExecStart=/usr/bin/datasette serve\n" in user["content"]
    assert UNIT not in system["content"]
