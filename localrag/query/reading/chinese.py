"""A Chinese sentence → its words and clauses, by jieba's words and the markers 把, 被, 由."""

def read(text):
    raise NotImplementedError
