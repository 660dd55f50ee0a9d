"""What chat programs ask on their own is not asked of the documents; what people ask is."""

import json

import pytest

from localrag.serve.openai import answer_client_task

TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: Who bought the ferry Skua in 1974?
ASSISTANT: Ingrid Holm.
</chat_history>"""


def test_a_task_is_answered_without_the_index():
    """A title is made of the question's words; tags, follow-ups and queries are empty lists."""
    assert json.loads(answer_client_task(TITLE)) == {"title": "Who bought the ferry Skua in 1974"}
    for key in ("tags", "follow_ups", "queries"):
        assert json.loads(answer_client_task(TITLE.replace('"title"', f'"{key}"'))) == {key: []}


@pytest.mark.parametrize(
    "message",
    [
        "What is the title of the book?",
        '### Task: list the tasks of the council that have a "title"',
        "Summarize the chat history of USER: Ruth Sand",
        'In which file does "tags" stand?',
        TITLE.replace("### Task:", "Please explain:"),
    ],
)
def test_a_question_is_never_taken_for_a_task(message):
    """One of the three signs, or two, are not enough."""
    assert answer_client_task(message) is None
