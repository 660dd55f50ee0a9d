"""Parts of speech: TextBlob's, without what its package brings along."""

import subprocess
import sys

import pytest

ALONE = """
import sys
from localrag.text.parts_of_speech import tag_english
text = "The quick fox said and/or wrote: it's Mr. Thwaite's boat, isn't it?"
said = [(text[a:b], tag) for (a, b), tag in tag_english(text)]
assert not {"nltk", "scipy", "textblob", "textblob.en"} & sys.modules.keys()
import textblob.en
assert textblob.TextBlob and "nltk" in sys.modules
theirs = [pair for pair in textblob.en.tag(text) if pair[0] in text]
assert [pair for pair in theirs if pair[0][0].isalpha()] == said, (theirs, said)
"""


@pytest.mark.ci
def test_words_are_tagged_as_textblob_does_without_loading_the_rest_of_it():
    """Neither NLTK nor SciPy is imported, and whoever imports TextBlob afterwards gets all of it."""
    subprocess.run([sys.executable, "-c", ALONE], check=True)
