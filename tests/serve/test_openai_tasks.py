"""What chat programs ask on their own is not asked of the documents; what people ask is."""

import json

import pytest

from localrag.serve.client_tasks import answer_client_task

ASKED, SAID = "Who bought the ferry Skua in 1974?", "Ingrid Holm bought it. [1]"
LINES = f"USER: {ASKED}\nASSISTANT: {SAID}"
HISTORY = f"### Chat History:\n<chat_history>\n{LINES}\n</chat_history>"
TITLE = f"""### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: {{ "title": "your concise title here" }}
### Examples:
- {{ "title": "📉 Stock Market Trends" }},
{HISTORY}"""
SYSTEM_TITLE = (
    "You are an assistant skilled in conversation. You need to summarize the user's conversation into a title within 10 words."
    " The language of the title should be consistent with the user's primary language. Do not use punctuation marks"
)


def one(text):
    """A conversation of one message."""
    return [("user", text)]


BEFORE = [("user", ASKED), ("assistant", SAID)]
# What programs send, each shortened to its parts: (messages, the whole answer or its beginning).
PROGRAMS = {
    "open-webui-title": (one(TITLE), '{"title": "Who bought the ferry Skua"}'),
    "open-webui-tags": (
        one(f'### Task:\nGenerate 1-3 broad tags for the chat history.\n### Output:\nJSON format: {{ "tags": ["tag1"] }}\n{HISTORY}'),
        '{"tags": []}',
    ),
    "open-webui-follow-ups": (
        one(
            "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next.\n### Output:\n"
            f'JSON format: {{ "follow_ups": ["Question 1?"] }}\n{HISTORY}'
        ),
        '{"follow_ups": []}',
    ),
    "open-webui-autocomplete": (
        one(
            '### Task:\nYou are an autocompletion system. Continue the text in `<text>`.\n- If unsure, return: `{ "text": "" }`.\n'
            '### Examples:\n<type>General</type>\n<text>The sun was</text>\nOutput:\n{ "text": "setting" }\n---\n### Context:\n'
            f"<chat_history>\n{LINES}\n</chat_history>\n<type>search query</type>\n<text>Who bought the</text>\n#### Output:\n"
        ),
        '{"text": ""}',
    ),
    "open-webui-tools": (
        [
            (
                "system",
                'Available Tools: [{"name":"x"}]\n\nYour task is to choose and return the correct tool(s) from the list of available tools.'
                ' Return only the JSON object: {\n  "tool_calls": [\n {"name": "toolName1"}]}',
            ),
            ("user", f'Query: History:\nUSER: """{ASKED}"""\nASSISTANT: """{SAID}"""\nQuery: And then?'),
        ],
        '{"tool_calls": []}',
    ),
    "librechat-structured": (
        one(
            "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the detected"
            f" language (5 words or less, no punctuation or quotation)\n\nUser: {ASKED}\nAI: {SAID}"
        ),
        "Who bought the ferry Skua",
    ),
    "chatbox-name": (
        one(
            "Based on the chat history, give this conversation a name.\nKeep it short - 10 words max, no quotes.\nUse English.\nJust"
            f" provide the name, nothing else.\n\nHere's the conversation:\n\n```\n{ASKED}\n\n---------\n\n{SAID}\n```\n\nThe name is:"
        ),
        "Who bought the ferry Skua in 1974",
    ),
    "cherry-studio": (
        [("system", SYSTEM_TITLE), ("user", json.dumps([{"role": "user", "mainText": ASKED}, {"role": "assistant", "mainText": SAID}]))],
        "Who bought the ferry Skua in 1974",
    ),
    "cherry-studio-chinese": (
        [("system", "你是一名擅长会话的助理，你需要将用户的会话总结为 10 个字以内的标题，不要使用标点符号"), ("user", "谁买下了渡轮？")],
        "谁买下了渡轮",
    ),
    "nextchat-title": (
        [
            *BEFORE,
            (
                "user",
                "Please generate a four to five word title summarizing our conversation without any lead-in, punctuation, quotation marks,"
                " periods, symbols, bold text, or additional text.",
            ),
        ],
        "Who bought the ferry Skua in 1974",
    ),
    "continue-title": (
        one(
            "Given the following... please reply with a title for the chat that is 3-4 words in length, all words used should be directly"
            f" related to the content of the chat, no additional text or explanation.\n\n{SAID}"
        ),
        "Ingrid Holm bought it",
    ),
    "continue-completion": (one("<fim_prefix>def f(x):\n<fim_suffix>\n    return y<fim_middle>"), ""),
    "langchain-condense": (
        one(
            "Given the following conversation and a follow up question, rephrase the follow up question to be a standalone question.\n\n"
            f"Chat History:\nHuman: {ASKED}\nAssistant: {SAID}\nFollow Up Input: Who is her brother?\nStandalone question:"
        ),
        "Who is her brother?",
    ),
}
# Wordings of no program, written after the rule was made: only the structure is the same.
UNSEEN = {
    "six-words": one(f"Come up with a snappy headline of at most six words for the dialogue below, nothing else.\n\n{LINES}"),
    "german": one(f"Erstelle einen kurzen Titel (höchstens 5 Wörter) für die folgende Unterhaltung.\n\nNutzer: {ASKED}\nBot: {SAID}"),
    "chinese": one(f"请为下面的对话生成一个不超过10个字的标题，只返回标题。\n\n用户：{ASKED}\n助手：{SAID}"),
    "tagged": one(
        f"<instructions>\nYou name chats. Write a title. Respond with the title only.\n</instructions>\n<chat>\n{LINES}\n</chat>"
    ),
    "afterwards": [*BEFORE, ("user", "Now write a title for our chat, five words or fewer, plain text.")],
}
QUESTIONS = {
    "title": one("What is the title of the book?"),
    "task-heading": one('### Task: list the tasks of the council that have a "title"'),
    "history": one("Summarize the chat history of USER: Ruth Sand"),
    "tags": one('In which file does "tags" stand?'),
    "about-a-prompt": one('Please explain what a prompt with "### Task", <chat_history> and { "title": "" } does.'),
    "summary": one("Give me a short summary of the letters of Lars Holm."),
    "message-date": one("Find the message in which Lars Holm says that the Skua leaks, and give only its date."),
    "follow-up-actions": one("Generate a list of follow-up actions from the minutes."),
    "contract": [*BEFORE, ("user", "Give the title of the contract in one word, only the title.")],
    "e-mail": one("Write an e-mail with a subject and a short message to Ruth Sand about the leak.\nUse only facts."),
    "german": one("Gib mir nur den Namen des Steuermanns."),
    "chinese": one("总结一下渡轮的历史，只用一句话。"),
    "anything-llm": [
        (
            "system",
            "Given the following conversation, relevant context, and a follow up question, reply with an answer to the current question the"
            " user is asking. Return only your response to the question.\nContext:\n[CONTEXT 0]:\nUser: hi\n[END CONTEXT 0]\n",
        ),
        ("user", "Who is the mate?"),
    ],
    "own-system": [
        ("system", "Answer from the documents. At the end suggest three follow-up questions about the conversation. Only short answers."),
        ("user", "Who is the mate?"),
    ],
    "attached": one(
        '### Task:\nRespond to the user query using the provided context.\n### Example\n{"title": "x"}\n<context>\n'
        f'<source id="1" name="a.pdf">{LINES}</source>\n</context>\n\nWho is the mate?'
    ),
    "attached-request": one(
        '<context>\n<source id="1" name="a.pdf">Write a title for this chat, five words only.</source>\n</context>\n\nWho is the mate?'
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_request_of_a_chat_program_is_answered_without_the_index(name):
    """Titles are the question's words, within the limit that was set; a program that wants JSON is given the keys it named."""
    messages, answer = PROGRAMS[name]
    assert answer_client_task(messages).startswith(answer)
    assert "documents do not say" not in answer_client_task(messages)


@pytest.mark.parametrize("name", UNSEEN)
def test_a_request_is_recognized_in_other_words(name):
    """By what it asks for, a limit of form, and the conversation that it brings."""
    assert answer_client_task(UNSEEN[name]) is not None


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_never_taken_for_a_request(name):
    """One of the signs, or two, are not enough."""
    assert answer_client_task(QUESTIONS[name]) is None


def test_an_answer_follows_the_schema_that_was_sent():
    """Each property has its type; what is not known is empty."""
    schema = {
        "properties": {"title": {"type": "string"}, "language": {"type": "string"}, "tags": {"type": "array"}, "ok": {"type": "boolean"}}
    }
    assert json.loads(answer_client_task(one(TITLE), schema)) == {
        "title": "Who bought the ferry Skua",
        "language": "",
        "tags": [],
        "ok": False,
    }


def test_a_long_message_is_read_at_once():
    """Neither many tags nor many roles take more than their length allows."""
    for text in (
        "<a>\n" * 50_000,
        "<a>\n</b>\n" * 20_000,
        "User: x\n" * 50_000,
        "```\n" * 50_000,
        "{" * 100_000,
        "title for chat " * 20_000,
    ):
        answer_client_task(one(text))
