"""Questions for users and tasks without a model: fixed frames about the things a collection names most.

A model of 135 million parameters that is asked for users, tasks and questions goes on about the example in its prompt.
"""

from collections.abc import Sequence

from localrag.eval.activities import Asked
from localrag.text.plain import is_cjk

USERS = (
    "a newcomer who has to work with these documents",
    "a researcher who writes about them",
    "a reporter who looks for what matters to the public",
    "an adviser who has to make a recommendation",
    "a teacher who prepares a lesson on them",
    "an archivist who describes them for others",
    "a critic who weighs what they claim",
    "someone who was there and wants to see it told",
)
# Task, its frames in English, and in Chinese.
TASKS = (
    (
        "get an overview",
        ("What are the main themes, and where does {} come in?", "What does the whole say about {}?"),
        ("整体上关于{}说了什么？",),
    ),
    (
        "see how things change",
        ("How do matters around {} change over time?", "What brings about the changes around {}?"),
        ("围绕{}的情况如何变化？",),
    ),
    ("find conflicts", ("Which conflicts is {} part of?", "Where do views on {} differ?"), ("{}卷入了哪些冲突？",)),
    ("see connections", ("How is {} connected with everything else?", "Who and what depends on {}?"), ("{}与其他人和事有什么联系？",)),
    ("judge what matters", ("Why does {} matter to the others?", "What would be missing without {}?"), ("{}为什么重要？",)),
    (
        "find causes",
        ("What are the causes of what happens around {}?", "What follows from what is said about {}?"),
        ("与{}有关的事情起因是什么？",),
    ),
    ("compare", ("How do different passages describe {}?", "What sets {} apart from others?"), ("不同的段落如何描述{}？",)),
    (
        "learn about the setting",
        ("What does {} tell about the time and place?", "Which rules and customs shape what happens around {}?"),
        ("{}反映了怎样的时代和地方？",),
    ),
)


def framed_questions(n: int, subjects: Sequence[str]) -> list[Asked]:
    """Up to `n` users, tasks and questions each about the subjects, those named most first; none twice, fewer where subjects run out."""
    found: dict[str, Asked] = {}
    for number, user in enumerate(USERS[:n]):
        turned = [*subjects[number:], *subjects[:number]]  # users begin with different things
        for task, english, chinese in TASKS[:n]:
            texts = (f.format(s) for s in turned for f in (chinese if is_cjk(s) else english))
            for text in [t for t in texts if t not in found][:n]:
                found[text] = Asked(user, task, text)
    return list(found.values())
