"""The server under many requests: none is lost, memory stays, what is too much is refused in words."""

import asyncio
import time

import httpx
import psutil
import pytest

from tests.serve.server import served

pytestmark = pytest.mark.ci

GROWTH = 40 << 20  # bytes


@pytest.fixture(scope="module")
def server(folder):
    """A server over it."""
    with served(folder) as running:
        yield running


def chat(n, mode="mix"):
    """The body of a question as programs ask it, each another one."""
    return {"model": f"localrag:{mode}", "messages": [{"role": "user", "content": f"Who is the mate of the Skua in letter {n}?"}]}


def idle(client):
    """Wait until no question is under way; the state then."""
    for _ in range(200):
        state = client.get("/api/status").json()
        if state["questions"] == {"active": 0, "waiting": 0}:
            return state
        time.sleep(0.05)
    raise AssertionError("a question does not end")


async def asked_at_once(server, n, leaving):
    """Ask `n` questions side by side, of which `leaving` hang up early; what each of the others was answered."""

    async def one(client, i):
        leaves = i < leaving
        async with client.stream("POST", "/v1/chat/completions", json=chat(i) | {"stream": leaves}) as answer:
            if leaves:
                await asyncio.sleep(0.05 * i)
                return None
            await answer.aread()
            return answer

    limits = httpx.Limits(max_connections=n)
    headers = {"authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(base_url=server.address, headers=headers, limits=limits, trust_env=False, timeout=300) as client:
        return [a for a in await asyncio.gather(*(one(client, i) for i in range(n))) if a is not None]


@pytest.mark.slow
def test_more_questions_than_may_wait_are_refused_in_words(server):
    """The others are answered."""
    answers = asyncio.run(asked_at_once(server, 150, leaving=0))
    refused = [a for a in answers if a.status_code != 200]
    assert {a.status_code for a in refused} <= {503}
    assert len(answers) - len(refused) >= 64
    assert all(a.json()["error"]["code"] == "busy" for a in refused)


@pytest.mark.slow
def test_two_thousand_requests_leave_memory_as_it_is(server):
    """Questions, searches, readings, pictures of the graph, as in a week of work."""
    process = psutil.Process(server.process.pid)
    with server.client() as client:
        [*documents] = client.get("/api/documents").json()["documents"]
        measured = []
        for n in range(2_000):
            if n % 10 == 0:
                found = client.post("/v1/chat/completions", json=chat(n, "mix" if n % 20 else "basic"))
            elif n % 5 == 1:
                found = client.get("/api/search", params={"q": f"ferry {n}"})
            elif n % 5 == 2:
                found = client.get(f"/api/documents/{documents[n % len(documents)]['id']}")
            elif n % 5 == 3:
                found = client.get("/api/graph.bin")
            else:
                found = client.get("/api/names", params={"q": "Ruth Sand"[: n % 9 + 1]})
            assert found.status_code == 200, found.text
            if n % 100 == 99:
                measured.append(process.memory_info().rss)
        idle(client)
    assert max(measured[10:]) - max(measured[:5]) < GROWTH, [m >> 20 for m in measured]
