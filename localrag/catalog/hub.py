"""The one thing of localrag that downloads: GGUF files from a model hub, resumed where they broke off, and kept only as announced.

The hub is Hugging Face's, or a mirror that `HF_ENDPOINT` names. Its list of a repository's files says the size and SHA-256 that each must
have. Redirects are followed to its own hosts and those the user allowed; `HF_TOKEN` is sent to the hub alone.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1, sha256
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import httpx

from localrag.errors import ModelError
from localrag.system.files import private_folder

HUB = "https://huggingface.co"
_HOSTS = ("huggingface.co", "hf.co")  # of the hub: its own and where it keeps the files
_PREFERRED = ("Q4_K_M", "Q8_0", "Q4_0", "F16")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_BESIDE = re.compile(r"(?i)mmproj|imatrix")  # files that are no models
TRIES = 5  # without a byte of progress
WAIT = 1.0  # seconds before the second try; the double before each further one
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)

Progress = Callable[[int, int], None]  # bytes that are there, of how many


@dataclass(frozen=True, slots=True)
class Remote:
    """A file of a repository: what it must weigh in bytes, and hash to (SHA-256, or git's SHA-1 of a small file)."""

    repo: str
    path: str
    size: int
    digest: str


def endpoint() -> str:
    """The hub's address. Raises ModelError where `HF_ENDPOINT` is none that may be asked."""
    url = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    if not _is_safe(httpx.URL(url)):
        raise ModelError(f"HF_ENDPOINT is {url}, which is not an https address.", "Set it to one, or unset it.")
    return url


def files_of(repo: str, quant: str, hosts: Sequence[str] = ()) -> list[Remote]:
    """The file, or the shards, of a quantisation in a repository (`quant` empty: a usual one). Raises ModelError."""
    url = f"{endpoint()}/api/models/{quote(repo)}/tree/main?recursive=true"
    try:
        with _client() as client, _answer(client, url, {}, hosts) as response:
            response.read()
    except httpx.HTTPError as error:
        mend = "Check the connection. On a machine without one, copy the file here and run: localrag models add PATH.gguf"
        raise ModelError(f"{httpx.URL(url).host} cannot be reached: {str(error) or type(error).__name__}.", mend) from error
    if response.status_code in (401, 403):
        hint = "Check its name. If it asks for your consent: give it on the hub's page, make a token there, and set HF_TOKEN."
        raise ModelError(f"The repository {repo} does not exist, or needs your consent.", hint)
    if response.status_code != 200:
        hint = "Check its name on the hub's page; localrag models list --all names some."
        raise ModelError(f"The hub knows no repository {repo} (HTTP {response.status_code}).", hint)
    try:
        listed = [_remote(repo, entry) for entry in response.json() if entry.get("type") == "file"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"The answer of {httpx.URL(url).host} about {repo} is not a list of files.", "Check HF_ENDPOINT.") from error
    return choose([f for f in listed if f.path.endswith(".gguf") and not _BESIDE.search(f.path)], repo, quant)


def _remote(repo: str, entry: dict[str, object]) -> Remote:
    lfs = entry.get("lfs")
    size, digest = (lfs["size"], lfs["oid"]) if isinstance(lfs, dict) else (entry["size"], entry["oid"])
    digest = str(digest).removeprefix("sha256:")
    path = str(entry["path"])
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest) or ".." in path.split("/") or path.startswith("/") or "\\" in path:
        raise ValueError
    return Remote(repo, path, int(str(size)), digest)


def choose(files: Sequence[Remote], repo: str, quant: str) -> list[Remote]:
    """The files of one quantisation, shards in their order. Raises ModelError where there is none, or none is usual."""
    if not files:
        raise ModelError(f"The repository {repo} has no GGUF file.", "Look for one whose name ends in -GGUF.")
    models: dict[str, list[Remote]] = {}
    for file in sorted(files, key=lambda f: f.path):
        models.setdefault(_SHARD.sub("", file.path), []).append(file)
    for wanted in [quant] if quant else _PREFERRED:
        named = [m for m in models if re.search(rf"(?i)(^|[-._/]){re.escape(wanted)}([-._/]|$)", m)]
        if named:
            return models[min(named, key=lambda m: (m.count("/"), len(m)))]
    if len(models) == 1 and not quant:
        return next(iter(models.values()))
    names = ", ".join(sorted(Path(m).name.removesuffix(".gguf") for m in models))
    lacks = f"The repository {repo} has no file {quant or 'of a usual quantisation'}."
    raise ModelError(lacks, f"Name one, as in {repo}:Q8_0. There are: {names}")


def download(files: Sequence[Remote], folder: Path, progress: Progress, hosts: Sequence[str] = ()) -> list[Path]:
    """The files, whole and as announced, below `folder`; what is there already is not fetched again, nor what a broken-off pull left.

    Raises ModelError; what has come so far stays for the next pull, unless it is wrong.
    """
    targets = [folder.joinpath(*file.repo.split("/"), *file.path.split("/")) for file in files]
    total, done = sum(f.size for f in files), 0
    missing = sum(f.size - _size(_part(t, f)) for f, t in zip(files, targets, strict=True) if _size(t) != f.size)
    private_folder(folder)
    if (free := shutil.disk_usage(folder).free) < missing:
        mend = f"Make room, or keep models elsewhere: export LOCALRAG_HOME=FOLDER ({folder} is full)"
        raise ModelError(f"The download needs {missing / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free.", mend)
    with _client() as client:
        for file, target in zip(files, targets, strict=True):
            if _size(target) != file.size:
                private_folder(target.parent)
                _fetch(client, file, target, lambda here, before=done: progress(before + here, total), hosts)  # type: ignore[misc]
            done += file.size
            progress(done, total)
    return targets


def _part(target: Path, file: Remote) -> Path:
    """Where a file grows: its name says of which content, so that a new version does not go on from an old one's half."""
    return target.with_name(f"{target.name}.{file.digest[:16]}.part")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch(client: httpx.Client, file: Remote, target: Path, progress: Callable[[int], None], hosts: Sequence[str]) -> None:
    part, tries = _part(target, file), 0
    part.touch(mode=0o600)
    while (have := _size(part)) < file.size:
        try:
            why = _append(client, file, part, progress, hosts)
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
        tries = 0 if _size(part) > have else tries + 1
        if tries == TRIES:
            said = f"The download of {Path(file.path).name} broke off at {_size(part):,} of {file.size:,} bytes ({why})."
            raise ModelError(said, "The same command goes on from there.")
        if tries:
            time.sleep(WAIT * 2 ** (tries - 1))
    if (found := _digest(part, file)) != file.digest:
        part.unlink()
        said = f"{Path(file.path).name} is not what the hub announced: its hash is {found[:16]}…, not {file.digest[:16]}…"
        raise ModelError(said, "It was deleted. Pull it again. If that does not help, the server or a proxy changes the file.")
    part.replace(target)


def _append(client: httpx.Client, file: Remote, part: Path, progress: Callable[[int], None], hosts: Sequence[str]) -> str:
    """Fetch what is missing, as far as it comes, and say why no more came. Raises ModelError where trying again is of no use,
    httpx.TransportError."""
    have = _size(part)
    url = f"{endpoint()}/{quote(file.repo)}/resolve/main/{quote(file.path)}"
    with _answer(client, url, {"Range": f"bytes={have}-"} if have else {}, hosts) as response:
        begins = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
        if response.status_code in (408, 429) or response.status_code >= 500:
            return f"HTTP {response.status_code}"
        if response.status_code not in (200, 206):
            raise ModelError(f"The server answers HTTP {response.status_code} for {file.path}.", "Try again later.")
        if response.status_code == 200 or not begins or int(begins[1]) != have:  # it does not know how to go on
            have = 0
            part.write_bytes(b"")
            if response.status_code == 206:
                return "the server went on from elsewhere"
        with part.open("ab") as f:
            for block in response.iter_raw():  # as it comes: what is gathered to larger blocks is lost where it breaks off
                have += len(block)
                if have > file.size:
                    f.truncate(0)
                    raise ModelError(f"The server sends more than the {file.size:,} bytes it announced for {file.path}.", "Pull it again.")
                f.write(block)
                progress(have)
    return "the server ended it"


def _digest(path: Path, file: Remote) -> str:
    digest = sha256() if len(file.digest) == 64 else sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _client() -> httpx.Client:
    return httpx.Client(timeout=_TIMEOUT, follow_redirects=False, headers={"Accept-Encoding": "identity", "User-Agent": "localrag"})


@contextmanager
def _answer(client: httpx.Client, url: str, headers: dict[str, str], hosts: Sequence[str]) -> Iterator[httpx.Response]:
    """The answer that stands at the end of the redirects, its body not yet read. Raises ModelError, httpx.TransportError."""
    token, hub = os.environ.get("HF_TOKEN"), httpx.URL(endpoint())
    at = httpx.URL(url)
    for _ in range(6):
        own = {"Authorization": f"Bearer {token}"} if token and at.host == hub.host and at.scheme == hub.scheme else {}
        response = client.send(client.build_request("GET", at, headers=headers | own), stream=True)
        if not response.is_redirect:
            try:
                yield response
            finally:
                response.close()
            return
        at = at.join(response.headers["location"])
        response.close()
        if not _may_ask(at, hub, hosts):
            mend = f"If you trust that host: --allow-host {at.host}"
            raise ModelError(f"The hub redirects the download to {at.scheme}://{at.host}, which is not its own.", mend)
    raise ModelError(f"{hub.host} redirects the download in a circle.", "Try again later.")


def _may_ask(url: httpx.URL, hub: httpx.URL, hosts: Sequence[str]) -> bool:
    own = hub.host in _HOSTS and any(url.host == host or url.host.endswith(f".{host}") for host in _HOSTS)
    return _is_safe(url) and (url.host == hub.host or own or url.host in hosts)


def _is_safe(url: httpx.URL) -> bool:
    """Whether an address is encrypted, or on this machine."""
    return url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
