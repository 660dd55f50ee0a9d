"""Retrievers of other frameworks, by those frameworks themselves."""

import asyncio
import subprocess
import sys

import pytest

from localrag.errors import NoIndex
from localrag.index import Index
from localrag.integrations import langchain_retriever, llama_index_retriever


def text_at(folder, place):
    """What stands in the document that a passage says it is of, at the characters it says."""
    with Index.open(folder) as index:
        text = {d.path: d.text for d in index.documents()}[place["source"]]
    return text[place["start"] : place["end"]]


@pytest.mark.ci
def test_langchain_gets_passages_with_their_places(plain_town):
    """One after the other, several at once from threads, and awaited; the text stands in the file at its place."""
    pytest.importorskip("langchain_core")
    retriever = langchain_retriever(plain_town, k=2)
    found = retriever.invoke("Who bought the ferry?")
    together = retriever.batch(["Who bought the ferry?", "Who lives in the lighthouse?"])
    awaited = asyncio.run(retriever.ainvoke("Who bought the ferry?"))

    assert 1 <= len(found) <= 2
    assert found[0].metadata["score"] == 1.0
    assert all(text_at(plain_town, p.metadata) == p.page_content for p in found)
    assert together[0] == found == awaited


@pytest.mark.ci
def test_llama_index_gets_passages_with_their_places(plain_town):
    """The score is that of the passage, and the text stands in the file at its place."""
    pytest.importorskip("llama_index.core")
    found = llama_index_retriever(plain_town, k=2).retrieve("Who bought the ferry?")
    node = found[0].node

    assert found[0].score == 1.0
    assert text_at(plain_town, node.metadata) == node.text


@pytest.mark.parametrize(("retriever", "library"), [(langchain_retriever, "langchain_core"), (llama_index_retriever, "llama_index")])
def test_a_folder_without_an_index_is_said(tmp_path, retriever, library):
    """When the retriever is made, not at the first question."""
    pytest.importorskip(library)
    with pytest.raises(NoIndex, match="There is no index"):
        retriever(tmp_path)


@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
@pytest.mark.ci
def test_a_framework_opens_no_connection(plain_town, framework):
    """Imported and asked, neither it nor its libraries look up a name or connect to anything."""
    pytest.importorskip({"langchain": "langchain_core"}.get(framework, framework))
    call = "invoke" if framework == "langchain" else "retrieve"
    code = f"""
import socket, sys
def refused(*args, **more): raise SystemExit(f"tried to connect: {{args}}")
socket.socket.connect = socket.socket.connect_ex = refused
socket.getaddrinfo = refused
from localrag.integrations import {framework}_retriever
print(len({framework}_retriever({str(plain_town)!r}).{call}("Who bought the ferry?")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert int(done.stdout) > 0
