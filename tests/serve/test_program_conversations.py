"""Conversations of programs: one each, apart from those of the person at the terminal and the page."""

import pytest

from localrag.index import Index
from tests.conftest import run_localrag
from tests.serve.server import asked

FIRST, SECOND, THIRD = "Who is the mate of the Skua?", "Who leaks?", "Who is Lars Holm?"


def turns(client, questions, *, path="/v1/chat/completions", window=99):
    """The replies to questions of one program, which sends at most `window` earlier messages with each."""
    messages, replies = [], []
    for question in questions:
        messages.append({"role": "user", "content": question})
        sent = messages[-window - 1 :]
        said = client.post(path, json={"model": "localrag:mix", "messages": sent, "stream": False}).json()
        reply = said["message"]["content"] if path == "/api/chat" else said["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": reply})
        replies.append(reply)
    return replies


def programs(client):
    return client.get("/api/conversations").json()["programs"]


@pytest.mark.parametrize(("path", "window"), [("/v1/chat/completions", 99), ("/api/chat", 99), ("/api/chat", 2)])
def test_a_conversation_of_a_program_is_one(client, path, window):
    """In every format, also where the program sends only the last turns."""
    before = {row["id"] for row in programs(client)}
    turns(client, [FIRST, SECOND, THIRD], path=path, window=window)
    (new,) = [row for row in programs(client) if row["id"] not in before]
    assert (new["title"], new["answers"]) == (FIRST, 3)


def test_two_conversations_that_begin_alike_stay_two(client):
    """Each goes on where its own questions lead; one without a history is new."""
    before = {row["id"] for row in programs(client)}
    opening = {"role": "user", "content": FIRST}
    replies = [turns(client, [FIRST])[0] for _ in range(2)]
    for reply, following in zip(replies, (SECOND, THIRD), strict=True):
        messages = [opening, {"role": "assistant", "content": reply}, {"role": "user", "content": following}]
        assert client.post("/v1/chat/completions", json={"model": "localrag:mix", "messages": messages}).status_code == 200
    assert [row["answers"] for row in programs(client) if row["id"] not in before] == [2, 2]


def test_what_a_person_asked_is_continued_not_what_a_program_did(client, folder):
    """By `last_answer`, which `ask -c` and `source` go by, and in the lists of the page, the terminal and the library."""
    number = asked(client, FIRST, mode="mix")["conversation"]
    turns(client, [SECOND, THIRD])
    with Index.open(folder / ".localrag") as index:
        assert index.last_answer().conversation == number
        assert index.conversations(1)[0]["id"] == number
        assert all(row["title"] != SECOND for row in index.conversations())
        assert {row["title"] for row in index.conversations(by_program=True)} >= {SECOND}
    assert client.get("/api/conversations").json()["conversations"][0]["id"] == number
    listed = run_localrag("sessions", "list", "--json", cwd=folder)
    assert SECOND not in listed.stdout
    assert SECOND in run_localrag("sessions", "list", "--programs", "--json", cwd=folder).stdout


def test_a_program_never_continues_a_persons_conversation(client):
    """Though it asks the same questions."""
    number = asked(client, FIRST, mode="mix")["conversation"]
    messages = [{"role": "user", "content": FIRST}, {"role": "assistant", "content": "Lars Holm."}, {"role": "user", "content": SECOND}]
    client.post("/v1/chat/completions", json={"model": "localrag:mix", "messages": messages})
    assert len(client.get(f"/api/conversations/{number}").json()["answers"]) == 1


def test_conversations_of_programs_can_be_deleted(client, folder):
    """By their number; `sessions rm --all` deletes them too."""
    turns(client, [FIRST])
    number = programs(client)[0]["id"]
    assert client.delete(f"/api/conversations/{number}").status_code == 200
    assert number not in {row["id"] for row in programs(client)}
