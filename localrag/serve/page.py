"""The page itself: files of the package, under a policy that runs nothing but them and talks to nobody but this server."""

from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localrag.serve.guard import Door, error, json_body

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
TYPES = {  # not from the system, whose table may say anything
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def routes(door: Door) -> list[Route]:
    """The page, its files, and the way to its token."""
    found = {name: _answer_of(name, item.read_bytes()) for name, item in _static(files("localrag.serve").joinpath("static"))}

    def page(request: Request) -> Response:
        return _unless_known(request, found["index.html"])

    def static(request: Request) -> Response:
        answer = found.get(request.path_params["name"])
        return _unless_known(request, answer) if answer else error(404, f"There is nothing at {request.url.path}.")

    async def session(request: Request) -> Response:
        code = json_body(await request.body(), ["code"])["code"]
        token = door.token_for(str(code))
        if token is None:
            return error(401, "The link was used already, or is too old.", "authentication_error", hint="Give the key instead.")
        return JSONResponse({"token": token})

    return [
        Route("/", page),
        Route("/static/{name:path}", static),
        Route("/api/session", session, methods=["POST"]),
        Route("/healthz", _healthz),
    ]


async def _healthz(_request: Request) -> Response:
    return JSONResponse({"ok": True})


def _static(folder: Traversable, below: str = "") -> list[tuple[str, Traversable]]:
    """Every file that is served, by its path below `static/`."""
    found = []
    for item in folder.iterdir():
        name = f"{below}{item.name}"
        if item.is_dir():
            found += _static(item, f"{name}/")
        elif name.rpartition(".")[2] in TYPES:
            found.append((name, item))
    return found


def _answer_of(name: str, data: bytes) -> Response:
    kind = TYPES[name.rpartition(".")[2]]
    tag = blake2b(data, digest_size=8).hexdigest()
    # Asked for again each time, which costs little on one machine: another version never meets an old one's files.
    headers = {"etag": f'"{tag}"', "cache-control": "no-cache", "content-security-policy": POLICY}
    return Response(data, headers=headers, media_type=kind)


def _unless_known(request: Request, answer: Response) -> Response:
    tag = answer.headers["etag"]
    known = {k: answer.headers[k] for k in ("etag", "cache-control", "content-security-policy")}
    return Response(status_code=304, headers=known) if request.headers.get("if-none-match") == tag else answer
