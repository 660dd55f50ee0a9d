"""Clients of MCP for tests: calls by one client, one after the other."""

import asyncio
import json

from mcp import Client


def by_client(server, *calls, **options):
    """What some calls give, one after the other, by one client: of a server in this process, or of the parameters that start one."""

    async def made():
        async with Client(server, **options) as client:
            return [await call(client) for call in calls]

    return asyncio.run(made())


def tool(called, /, **arguments):
    """A call of a tool."""
    return lambda client: client.call_tool(called, arguments)


def text_of(result):
    assert not result.is_error, result.content
    return result.content[0].text


def size_of(result):
    """Bytes that a model may be given of it."""
    return len(json.dumps(result.model_dump(mode="json", by_alias=True, exclude_none=True), ensure_ascii=False).encode())
