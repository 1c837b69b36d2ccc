"""A hub for tests: serves folders as repositories on loopback, and has whatever trouble it is told to have.

It answers what ``huggingface_hub`` and ``datasets`` ask to read data sets and models: ``/api/.../revision``,
``tree``, ``paths-info`` and ``resolve``, with commits, ETags and ranges. As on the hub, large files lie in a
storage of their own, to which ``resolve`` sends on. The client finds it by ``HF_ENDPOINT``.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["datasets", "models"]

LARGE = (".parquet", ".safetensors", ".bin")
"""What the hub keeps in its storage of large files."""

_NAME = r"(?P<name>[^/]+/[^/]+)"
_API = re.compile(
    rf"/api/(?P<kind>datasets|models)/{_NAME}(/(?P<verb>revision|tree|paths-info)/(?P<revision>[^/]+)(/(?P<path>.+))?)?"
)
_RESOLVE = re.compile(rf"/((?P<kind>datasets)/)?{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_STORAGE = re.compile(r"/storage/(?P<digest>[0-9a-f]{64})")


@dataclass
class Trouble:
    """What goes wrong with requests.

    Args:
        where: A regular expression for the method and the path, such as ``GET /storage/``.
        status: Answered in place of what was asked for.
        retry_after: Seconds, in the header of that answer.
        delay_s: How long an answer takes.
        cut_at: Bytes of a file after which the connection ends.
        times: How many requests it meets.
    """

    where: str
    status: int | None = None
    retry_after: int | None = None
    delay_s: float = 0.0
    cut_at: int | None = None
    times: float = float("inf")


@dataclass
class RefusedError(Exception):
    """An answer without content, as the hub words it."""

    status: int
    code: str
    message: str
    commit: str | None = None


class StandIn:
    """The server; a context manager, at work inside it."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, str], dict[str, Path]] = {}
        self._branches: dict[tuple[str, str], dict[str, str]] = {}
        self.troubles: list[Trouble] = []
        self.requests: list[str] = []
        """What was asked for: method and path."""
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """For ``HF_ENDPOINT``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def storage(self) -> str:
        """Where large files lie: on the hub that is another host, so another name of this one."""
        return f"http://localhost:{self._server.server_address[1]}/storage"

    def publish(
        self, kind: Kind, name: str, folder: Path, branch: str = "main", commit: str | None = None
    ) -> str:
        """Serve a folder as a commit that a branch of a repository leads to; returns the commit."""
        files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
        if commit is None:
            content = [(file, _digest(path, "sha1")) for file, path in files.items()]
            commit = hashlib.sha1(repr((name, content)).encode()).hexdigest()
        self._commits.setdefault((kind, name), {})[commit] = folder
        self._branches.setdefault((kind, name), {})[branch] = commit
        return commit

    def find(self, kind: str, name: str, revision: str) -> tuple[str, Path]:
        """Return the commit and the folder of a revision."""
        if (kind, name) not in self._commits:
            raise RefusedError(401, "RepoNotFound", "Repository not found")
        commit = self._branches[kind, name].get(revision, revision)
        if commit not in self._commits[kind, name]:
            raise RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, self._commits[kind, name][commit]

    def stored(self, digest: str) -> Path:
        """Return the large file with a SHA-256."""
        folders = [folder for commits in self._commits.values() for folder in commits.values()]
        large = [path for folder in folders for path in _files(folder) if path.name.endswith(LARGE)]
        return next(path for path in large if _digest(path, "sha256") == digest)

    def trouble(self, method: str, path: str) -> Trouble:
        """Return what goes wrong with a request, once more of that."""
        self.requests.append(f"{method} {path}")
        for trouble in self.troubles:
            if trouble.times > 0 and re.search(trouble.where, f"{method} {path}"):
                trouble.times -= 1
                return trouble
        return Trouble("")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: StandIn

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        trouble = self.hub.trouble(self.command, self.path)
        time.sleep(trouble.delay_s)
        try:
            if trouble.status is not None:
                wait = {} if trouble.retry_after is None else {"Retry-After": str(trouble.retry_after)}
                self._send(b"", wait, trouble.status)
            else:
                self._serve(urlsplit(self.path), body, trouble.cut_at)
        except RefusedError as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
            headers |= {"X-Repo-Commit": refusal.commit} if refusal.commit else {}
            self._send(json.dumps({"error": refusal.message}).encode(), headers, refusal.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has given up

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815  the names that http.server calls

    def _serve(self, url: Any, body: bytes, cut_at: int | None) -> None:
        if found := _STORAGE.fullmatch(url.path):
            path = self.hub.stored(found["digest"])
            self._send_file(path, {"ETag": f'"{found["digest"]}"'}, cut_at)
        elif found := _RESOLVE.fullmatch(url.path):
            self._resolve(
                {key: unquote(value or "models") for key, value in found.groupdict().items()}, cut_at
            )
        elif found := _API.fullmatch(url.path):
            place = {key: unquote(value or "") for key, value in found.groupdict().items()}
            commit, folder = self.hub.find(place["kind"], place["name"], place["revision"] or "main")
            if place["verb"] == "tree":
                is_deep = parse_qs(url.query).get("recursive", [""])[0].lower() in ("true", "1")
                self._send_json(_tree(folder, place["path"], is_deep, commit))
            elif place["verb"] == "paths-info":
                asked = _paths(self.headers.get("Content-Type", ""), body)
                self._send_json([_entry(folder, path) for path in asked if (folder / path).exists()])
            else:
                self._send_json(_info(place["name"], commit, folder))
        else:
            raise RefusedError(404, "NotFound", f"nothing is served at {url.path}")

    def _resolve(self, place: Mapping[str, str], cut_at: int | None) -> None:
        commit, folder = self.hub.find(place["kind"], place["name"], place["revision"])
        path = folder / place["path"]
        if not path.is_file():
            raise RefusedError(404, "EntryNotFound", "Entry not found", commit)
        if path.name.endswith(LARGE):
            digest = _digest(path, "sha256")
            linked = {"X-Linked-Size": str(path.stat().st_size), "X-Linked-ETag": f'"{digest}"'}
            place_of_it = {"Location": f"{self.hub.storage}/{digest}"}
            self._send(b"", {"X-Repo-Commit": commit, **linked, **place_of_it}, 302)
        else:
            etag = {"X-Repo-Commit": commit, "ETag": f'"{_digest(path, "sha1")}"'}
            self._send_file(path, etag, cut_at)

    def _send_file(self, path: Path, headers: Mapping[str, str], cut_at: int | None) -> None:
        content, first, status = path.read_bytes(), 0, 200
        headers = {**headers, "Accept-Ranges": "bytes"}
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, whole = int(found[1]), len(content)
            content, status = content[first : int(found[2] or whole) + 1], 206
            headers["Content-Range"] = f"bytes {first}-{first + len(content) - 1}/{whole}"
        self._send(content, headers, status, None if cut_at is None else max(0, cut_at - first))

    def _send_json(self, content: object) -> None:
        self._send(json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _send(
        self, content: bytes, headers: Mapping[str, str], status: int = 200, cut_at: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut_at])
            self.close_connection = cut_at is not None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _tree(folder: Path, below: str, is_deep: bool, commit: str) -> list[dict]:
    top = folder / below
    if not top.is_dir():
        raise RefusedError(404, "EntryNotFound", f"{below} does not exist", commit)
    found = sorted(top.rglob("*") if is_deep else top.iterdir())
    return [_entry(folder, path.relative_to(folder).as_posix()) for path in found]


def _entry(folder: Path, name: str) -> dict:
    path = folder / name
    if path.is_dir():
        return {"type": "directory", "oid": hashlib.sha1(name.encode()).hexdigest(), "size": 0, "path": name}
    size = path.stat().st_size
    entry: dict[str, Any] = {"type": "file", "oid": _digest(path, "sha1"), "size": size, "path": name}
    if path.name.endswith(LARGE):
        entry["lfs"] = {"oid": _digest(path, "sha256"), "size": size, "pointerSize": 134}
    return entry


def _info(name: str, commit: str, folder: Path) -> dict:
    files = [{"rfilename": path.relative_to(folder).as_posix()} for path in _files(folder)]
    when = "2024-08-12T00:00:00.000Z"
    numbers = {"downloads": 0, "likes": 0, "tags": []}
    flags = {"private": False, "gated": False, "disabled": False}
    times = {"lastModified": when, "createdAt": when}
    return {"_id": "0", "id": name, "sha": commit, "siblings": files, **times, **flags, **numbers}


def _paths(content_type: str, body: bytes) -> list[str]:
    """What paths-info is asked about: JSON, or a form."""
    return json.loads(body)["paths"] if "json" in content_type else parse_qs(body.decode())["paths"]
