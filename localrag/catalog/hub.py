"""Download of GGUF files from a model hub: resumable, and verified by size and SHA-256. Nothing else in localrag downloads.

The hub is Hugging Face, or a mirror in `HF_ENDPOINT`. Its list of a repository's files has their sizes and digests. Redirects are followed
to its own hosts and those that the user allowed; `HF_TOKEN` is sent to the hub only.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest, sha1, sha256
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import httpx

from localrag.errors import ModelError
from localrag.system.files import ensure_private_folder
from localrag.system.resources import run_in_thread

HUB = "https://huggingface.co"
_HOSTS = ("huggingface.co", "hf.co")  # of the hub and of its file storage
_PREFERRED = ("Q4_K_M", "Q8_0", "Q4_0", "F16")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_BESIDE = re.compile(r"(?i)mmproj|imatrix")  # files that are no models
MAX_STALLED_RETRIES = 5  # without a byte of progress
RETRY_DELAY_S = 1.0  # seconds before the second try, doubled before each further one
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
RESPONSE_TIMEOUT_S = 60.0  # for the headers of a response, and for a list of files
STALL_S, MIN_STALL_BYTES = 60.0, 64 << 10  # a download that brings less in this time is begun again
MAX_LIST_BYTES = 64 << 20

OnProgress = Callable[[int, int], None]  # bytes received, total


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository with its size in bytes and its digest (SHA-256, or git's SHA-1 of a small file)."""

    repo: str
    path: str
    size: int
    digest: str


def endpoint() -> str:
    """The hub's address. Raises ModelError if `HF_ENDPOINT` is not allowed."""
    url = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    if not _is_safe(_url(url)):
        raise ModelError(f"HF_ENDPOINT is {url}, which is not an https address.", "Set it to one, or unset it.")
    return url


def list_files(repo: str, quant: str, hosts: Sequence[str] = ()) -> list[RemoteFile]:
    """The file, or the shards, of a quantisation in a repository (`quant` empty: a usual one). Raises ModelError."""
    url = f"{endpoint()}/api/models/{quote(repo)}/tree/main?recursive=true"
    try:
        with _client() as client, _follow_redirects(client, url, {}, hosts) as response:
            listing = _read_list(response)
    except httpx.HTTPError as error:
        remedy = "Check the connection. On a machine without one, copy the file here and run: localrag models add PATH.gguf"
        raise ModelError(f"{httpx.URL(url).host} cannot be reached: {str(error) or type(error).__name__}.", remedy) from error
    if response.status_code in (401, 403):
        hint = "Check its name. If it is gated, accept its terms on the hub's page, create a token there, and set HF_TOKEN."
        raise ModelError(f"The repository {repo} does not exist, or needs your consent.", hint)
    if response.status_code != 200:
        hint = "Check its name on the hub's page; localrag models list --all names some."
        raise ModelError(f"The hub knows no repository {repo} (HTTP {response.status_code}).", hint)
    try:
        listed = [_remote(repo, entry) for entry in json.loads(listing) if entry.get("type") == "file"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"The answer of {httpx.URL(url).host} about {repo} is not a list of files.", "Check HF_ENDPOINT.") from error
    return select_quantization([f for f in listed if f.path.endswith(".gguf") and not _BESIDE.search(f.path)], repo, quant)


def _read_list(response: httpx.Response) -> bytes:
    until, parts, size = time.monotonic() + RESPONSE_TIMEOUT_S, list[bytes](), 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if time.monotonic() > until or size > MAX_LIST_BYTES:
            raise httpx.ReadTimeout("its list of files does not end")
    return b"".join(parts)


def _remote(repo: str, entry: dict[str, object]) -> RemoteFile:
    lfs = entry.get("lfs")
    size, digest = (lfs["size"], lfs["oid"]) if isinstance(lfs, dict) else (entry["size"], entry["oid"])
    digest = str(digest).removeprefix("sha256:")
    path = str(entry["path"])
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest) or ".." in path.split("/") or path.startswith("/") or "\\" in path:
        raise ValueError
    return RemoteFile(repo, path, int(str(size)), digest)


def select_quantization(files: Sequence[RemoteFile], repo: str, quant: str) -> list[RemoteFile]:
    """The files of one quantisation, shards in order. Raises ModelError if there is none, or no usual one."""
    if not files:
        raise ModelError(f"The repository {repo} has no GGUF file.", "Look for one whose name ends in -GGUF.")
    models: dict[str, list[RemoteFile]] = {}
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


def download(files: Sequence[RemoteFile], folder: Path, progress: OnProgress, hosts: Sequence[str] = ()) -> list[Path]:
    """Download, resume and verify files below `folder`. Raises ModelError; a partial file stays for the next try, unless it is wrong."""
    targets = [folder.joinpath(*file.repo.split("/"), *file.path.split("/")) for file in files]
    total, done = sum(f.size for f in files), 0
    missing = sum(f.size - _size(_partial_path(t, f)) for f, t in zip(files, targets, strict=True) if _size(t) != f.size)
    ensure_private_folder(folder)
    if (free := shutil.disk_usage(folder).free) < missing:
        remedy = f"Free some space, or store models elsewhere: export LOCALRAG_HOME=FOLDER ({folder} is full)"
        raise ModelError(f"The download needs {missing / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free.", remedy)
    with _client() as client:
        for file, target in zip(files, targets, strict=True):
            if _size(target) != file.size:
                ensure_private_folder(target.parent)
                _fetch(client, file, target, lambda here, before=done: progress(before + here, total), hosts)  # type: ignore[misc]
            done += file.size
            progress(done, total)
    return targets


def _partial_path(target: Path, file: RemoteFile) -> Path:
    """The path of a partial file: its name includes the digest, so that a new version does not continue an old one."""
    return target.with_name(f"{target.name}.{file.digest[:16]}.part")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch(client: httpx.Client, file: RemoteFile, target: Path, progress: Callable[[int], None], hosts: Sequence[str]) -> None:
    part, tries = _partial_path(target, file), 0
    part.touch(mode=0o600)
    while (have := _size(part)) < file.size:
        began = time.monotonic()
        try:
            reason = _append(client, file, part, progress, hosts)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
        is_stalled = time.monotonic() - began > STALL_S and _size(part) < have + MIN_STALL_BYTES
        tries = 0 if _size(part) > have and not is_stalled else tries + 1
        if tries == MAX_STALLED_RETRIES:
            message = f"The download of {Path(file.path).name} was interrupted at {_size(part):,} of {file.size:,} bytes ({reason})."
            raise ModelError(message, "The same command resumes it.")
        if tries:
            time.sleep(RETRY_DELAY_S * 2 ** (tries - 1))
    if (digest := _digest(part, file)) != file.digest:
        part.unlink()
        message = f"{Path(file.path).name} differs from what the hub announced: its hash is {digest[:16]}…, not {file.digest[:16]}…"
        raise ModelError(message, "It was deleted. Pull it again. If that does not help, the server or a proxy changes the file.")
    part.replace(target)


def _append(client: httpx.Client, file: RemoteFile, part: Path, progress: Callable[[int], None], hosts: Sequence[str]) -> str:
    have = _size(part)
    url = f"{endpoint()}/{quote(file.repo)}/resolve/main/{quote(file.path)}"
    with _follow_redirects(client, url, {"Range": f"bytes={have}-"} if have else {}, hosts) as response:
        begins = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
        if response.status_code in (408, 429) or response.status_code >= 500:
            return f"HTTP {response.status_code}"
        if response.status_code not in (200, 206):
            raise ModelError(f"The server answers HTTP {response.status_code} for {file.path}.", "Try again later.")
        if response.status_code == 200 or not begins or int(begins[1]) != have:  # it does not support ranges
            have = 0
            part.write_bytes(b"")
            if response.status_code == 206:
                return "the server resumed at another position"
        since, at_least = time.monotonic(), have + MIN_STALL_BYTES
        with part.open("ab") as f:
            for block in response.iter_raw():  # in blocks as received: data collected into larger blocks would be lost by an interruption
                have += len(block)
                if have > file.size:
                    f.truncate(0)
                    raise ModelError(f"The server sends more than the {file.size:,} bytes it announced for {file.path}.", "Pull it again.")
                f.write(block)
                progress(have)
                if time.monotonic() - since > STALL_S:
                    if have < at_least:
                        return "the server stalls"
                    since, at_least = time.monotonic(), have + MIN_STALL_BYTES
    return "the server ended it"


def _digest(path: Path, file: RemoteFile) -> str:
    begin = sha256 if len(file.digest) == 64 else partial(sha1, b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as f:
        return file_digest(f, begin).hexdigest()


def _url(text: str) -> httpx.URL:
    """An address; an empty one, which is not safe, for a text that is none."""
    try:
        return httpx.URL(text)
    except httpx.InvalidURL:
        return httpx.URL()


def _client() -> httpx.Client:
    try:
        return httpx.Client(timeout=_TIMEOUT, follow_redirects=False, headers={"Accept-Encoding": "identity", "User-Agent": "localrag"})
    except OSError as error:
        name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
        raise ModelError(f"There are no readable certificates where {name} says.", f"Name a PEM file, or: unset {name}") from error
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # ImportError: SOCKS needs another package
        proxies = "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"  # their values may hold a password
        names = " ".join(name for name in os.environ if name.upper() in proxies) or "the system's setting"
        raise ModelError(f"No connection can be made as {names} says.", f"Name a proxy as http://HOST:PORT, or: unset {names}") from error


@contextmanager
def _follow_redirects(client: httpx.Client, url: str, headers: dict[str, str], hosts: Sequence[str]) -> Iterator[httpx.Response]:
    """The response after all redirects, its body unread. Raises ModelError, httpx.TransportError."""
    token, hub = os.environ.get("HF_TOKEN", "").strip(), httpx.URL(endpoint())
    if not (token.isascii() and token.isprintable()):
        raise ModelError("HF_TOKEN contains characters that a token cannot have.", "Copy it again from the hub's page, or: unset HF_TOKEN")
    at = httpx.URL(url)
    for _ in range(6):
        authorization = {"Authorization": f"Bearer {token}"} if token and at.host == hub.host and at.scheme == hub.scheme else {}
        request = client.build_request("GET", at, headers=headers | authorization)
        try:  # in a thread, because the library waits as long as headers drip
            response = run_in_thread(partial(client.send, request, stream=True)).result(RESPONSE_TIMEOUT_S)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"{at.host} does not answer") from error
        if not response.has_redirect_location:
            try:
                yield response
            finally:
                response.close()
            return
        at = at.join(_url(response.headers["location"]))
        response.close()
        if not _is_allowed_host(at, hub, hosts):
            remedy = f"If you trust that host: --allow-host {at.host}"
            raise ModelError(f"The hub redirects the download to {at.scheme}://{at.host}, which is not its own.", remedy)
    raise ModelError(f"{hub.host} redirects the download in a loop.", "Try again later.")


def _is_allowed_host(url: httpx.URL, hub: httpx.URL, hosts: Sequence[str]) -> bool:
    is_hub_host = hub.host in _HOSTS and any(url.host == host or url.host.endswith(f".{host}") for host in _HOSTS)
    return _is_safe(url) and (url.host == hub.host or is_hub_host or url.host in hosts)


def _is_safe(url: httpx.URL) -> bool:
    return url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.host))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
