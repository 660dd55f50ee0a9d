"""What chat programs ask on their own: a title, tags, follow-up questions, search queries. None of it is a question to the documents.

They come as ordinary messages. One is taken for such a task only if three things hold: how it begins, that it holds the conversation, and
that it names a key of the JSON it wants. Anything else is asked of the index: too generous a rule would keep people's questions from it.
"""

import json
import re

_BEGINS = ("### Task:", "Provide a concise", "Please generate a concise")
_HOLDS = re.compile(r"<chat_history>|\b(?:USER|User|Human|ASSISTANT|Assistant|AI): ")
_KEYS = ("title", "tags", "follow_ups", "queries")
_ASKED = re.compile(r"(?:USER|User|Human): (.+)")
LONGEST_TITLE = 8  # words


def task_answer(message: str) -> str | None:
    """The JSON that answers a chat program's own task, without a model; None where the message is a person's question."""
    text = message.lstrip()
    key = next((k for k in _KEYS if f'"{k}"' in text), None)
    if key is None or not text.startswith(_BEGINS) or not _HOLDS.search(text):
        return None
    asked = _ASKED.search(text)
    title = " ".join(asked[1].split()[:LONGEST_TITLE]).rstrip("?.!") if asked else "Documents"
    return json.dumps({key: title if key == "title" else []}, ensure_ascii=False)
