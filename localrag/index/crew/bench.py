"""The worker on another machine, as Ray runs it. Every value comes and goes pickled, in pieces that Ray passes on without storing them.

A method never raises: what it would say could hold text of a document, and Ray writes errors into its logs. For the same reason nothing
that a library prints goes anywhere.
"""

import asyncio
import os
import pickle
import platform
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from localrag.errors import LocalragError, kind_and_place
from localrag.index.crew.alike import arithmetic, own_layout, software
from localrag.index.crew.kit import Workshop
from localrag.index.crew.shipping import Arriving, Wanted, find
from localrag.system.cores import free_cores

PIECE = 64 << 10  # bytes: from 100 KiB on, Ray puts a value into its object store, and that may go to a disk


def in_pieces(value: Any) -> list[bytes]:
    """A value, pickled and cut."""
    data = pickle.dumps(value, protocol=5)
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


class Bench:
    """A worker. `ask` is answered in pieces; what is long comes and goes by `take` and `more`."""

    def __init__(self) -> None:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
        self._coming: defaultdict[int, list[bytes]] = defaultdict(list)
        self._going: dict[int, list[bytes]] = {}
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._shop: Workshop | None = None
        self._tools: Any = None
        self._paths: dict[str, Path] = {}
        self._arriving: dict[str, Arriving] = {}

    async def about(self) -> dict[str, Any]:
        """What runs here, in plain values: other versions must be able to tell each other."""
        return {"software": software(), "time": time.time(), "host": platform.node(), "cores": free_cores(), "pid": os.getpid()}

    async def take(self, number: int, piece: bytes) -> None:
        """The next piece of a question."""
        self._coming[number].append(piece)

    async def ask(self, number: int, piece: bytes) -> tuple[bytes, int]:
        """The last piece of a question; the first of the answer, and how many more there are."""
        try:
            what, value = pickle.loads(b"".join([*self._coming.pop(number, []), piece]))
            self._running[number] = task = asyncio.ensure_future(getattr(self, f"_{what}")(value))
            found: Any = await task
        except LocalragError as error:
            found = error
        except asyncio.CancelledError:  # nobody waits for it any more
            found = None
        except Exception as error:  # noqa: BLE001 — the one who asked says what went wrong
            found = LocalragError(f"A worker failed: {kind_and_place(error)}.", "Run the same command again; what is done is saved.")
        finally:
            self._running.pop(number, None)
        first, *rest = in_pieces(found)
        if rest:
            self._going[number] = rest
        return first, len(rest)

    async def more(self, number: int) -> bytes:
        """The next piece of an answer."""
        piece = self._going[number].pop(0)
        if not self._going[number]:
            del self._going[number]
        return piece

    async def stop(self, number: int) -> None:
        """Nobody waits for an answer any more."""
        self._coming.pop(number, None)
        self._going.pop(number, None)
        if task := self._running.get(number):
            task.cancel()

    async def put(self, fingerprint: str, name: str, at: int, piece: bytes) -> LocalragError | None:
        """A piece of a model's file, which may well go through Ray's object store."""
        try:
            self._arriving[fingerprint].take(name, at, piece)
        except LocalragError as error:
            return error
        except Exception as error:  # noqa: BLE001 — as above
            return LocalragError(f"A worker failed: {kind_and_place(error)}.")
        return None

    async def _has(self, wanted: Wanted) -> bool:
        """Whether a model is here; where not, its pieces are awaited. Raises LocalragError."""
        if path := find(wanted):
            self._paths[wanted.kind] = path
            return True
        self._arriving[wanted.fingerprint] = Arriving(wanted)
        return False

    async def _seal(self, value: tuple[str, dict[str, str]]) -> None:
        fingerprint, digests = value
        arriving = self._arriving.pop(fingerprint)
        self._paths[arriving.wanted.kind] = arriving.seal(digests)

    async def _open(self, kit: Any) -> None:
        if self._shop is not None:
            self._shop.close()
        self._tools = kit.with_files(self._paths).open(None)
        self._shop = Workshop(self._tools)

    async def _layout(self, _: None) -> str:
        return await own_layout(self._tools)

    async def _probe(self, asks: bool) -> str:
        return await arithmetic(self._tools, asks=asks)

    async def _do(self, parcel: Any) -> Any:
        assert self._shop is not None
        return await self._shop.do(parcel)

    async def _facts(self, _: None) -> dict[str, Any]:
        assert self._shop is not None
        return await self._shop.facts()
