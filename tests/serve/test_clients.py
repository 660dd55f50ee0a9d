"""Programs and libraries that people ask an index with, themselves, and what Open WebUI makes of an answer's annotations."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

pytestmark = pytest.mark.ci

QUESTION = "Who is the mate of the Skua?"


@pytest.fixture
def llm(server, tmp_path):
    """Runs the `llm` command with the index as one of its models."""
    model = {"model_id": "papers", "model_name": "localrag:mix", "api_base": f"{server.address}/v1", "api_key_name": "localrag"}
    (tmp_path / "extra-openai-models.yaml").write_text(yaml.safe_dump([model]))
    (tmp_path / "keys.json").write_text(json.dumps({"localrag": server.key}))

    def run(*args):
        environment = os.environ | {"LLM_USER_PATH": str(tmp_path), "NO_PROXY": "*"}
        done = subprocess.run(
            [sys.executable, "-m", "llm", *args], capture_output=True, text=True, check=False, env=environment, timeout=90
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("how", [[], ["--no-stream"]])
def test_the_llm_command_asks_the_index(llm, how):
    """The answer comes with its sources as text, streamed and whole; the program keeps it in its own log."""
    said = llm("-m", "papers", QUESTION, *how)
    assert "Lars Holm" in said
    assert "[1]" in said
    assert "Sources" in said
    assert json.loads(llm("logs", "list", "--json"))[0]["prompt"] == QUESTION


def as_open_webui_reads(lines):
    """The text, and the sources in the order of their numbers: one for each address, in which annotations come (as of early 2026).

    Its middleware makes a source of every `url_citation` of a delta; its page numbers them by address and links `[n]` to the n-th.
    """
    text, sources = "", {}
    for line in lines:
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            text += choice["delta"].get("content") or ""
            for annotation in choice["delta"].get("annotations") or []:
                if annotation["type"] == "url_citation":
                    cited = annotation["url_citation"]
                    name = cited.get("title") or cited["url"]
                    sources.setdefault(cited["url"], {"document": [name], "source": {"name": name, "url": cited["url"]}})
    return text, list(sources.values())


def test_open_webui_links_each_number_to_its_source(server):
    """`[n]` leads to the page's view of citation n, named by its path and words."""
    body = {"model": "localrag:mix", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with server.client() as door, door.stream("POST", "/v1/chat/completions", json=body) as stream:
        text, sources = as_open_webui_reads(stream.iter_lines())
    numbers = {int(n) for n in re.findall(r"\[(\d+)\]", text)}
    assert numbers == set(range(1, len(sources) + 1))
    for n, source in enumerate(sources, 1):
        assert source["source"]["url"].startswith(f"{server.address}/#/source/")
        assert source["source"]["url"].endswith(f"/{n}")
        assert re.search(r"docs/\w\.\w+.*“.+”", source["document"][0])


def test_ollamas_own_client_asks_the_index(server):
    """Whole and streamed; the models are the modes."""
    import ollama

    client = ollama.Client(server.address, headers={"Authorization": f"Bearer {server.key}"}, trust_env=False)
    asked = {"model": "localrag:mix", "messages": [{"role": "user", "content": QUESTION}]}

    whole = client.chat(**asked).message.content
    assert "Lars Holm" in whole
    assert "".join(part.message.content or "" for part in client.chat(**asked, stream=True)) == whole
    assert any(model.model.startswith("localrag:mix") for model in client.list().models)
