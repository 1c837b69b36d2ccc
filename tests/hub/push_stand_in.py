"""The stand-in for the hub with what ``huggingface_hub`` calls to write: repositories, branches, commits.

As on the hub, a commit names large files by their SHA-256 and they must be in the storage (LFS) before; small
ones are in it. What is pushed can be read back from the same server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from tests.hub.stand_in import LARGE, RefusedError, StandIn, _Handler

TOKEN = "hf_writes"
_NAME = r"(?P<name>[^/]+/[^/]+)"
_WRITES = {
    "create": re.compile(r"/api/repos/create"),
    "validate": re.compile(r"/api/validate-yaml"),
    "preupload": re.compile(rf"/api/models/{_NAME}/preupload/(?P<revision>[^/]+)"),
    "commit": re.compile(rf"/api/models/{_NAME}/commit/(?P<revision>[^/]+)"),
    "batch": re.compile(rf"/{_NAME}\.git/info/lfs/objects/batch"),
    "verify": re.compile(r"/verify"),
    "put": re.compile(r"/uploads/(?P<digest>[0-9a-f]{64})"),
}


class PushStandIn(StandIn):
    """The server.

    Args:
        folder: Where it keeps what is pushed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.visibility: dict[str, str] = {}
        self.heads: dict[tuple[str, str], Path] = {}
        """By repository and branch the folder of its newest commit."""
        self.commits: list[tuple[str, str]] = []
        self.writing = threading.Lock()
        super().__init__()

    def _listen(self, port: int) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_PushHandler,), {"hub": self}))
        server.daemon_threads = True
        return server

    def forget(self) -> None:
        super().forget()
        for content in (self.visibility, self.heads, self.commits):
            content.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def large_file(self, digest: str) -> Path:
        """Where an uploaded large file lies."""
        return self.folder / "lfs" / digest

    def add(self, name: str, branch: str, folder: Path) -> str:
        """Have a branch lead to a folder."""
        self.heads[name, branch] = folder
        return self.publish("models", name, folder, branch)


class _PushHandler(_Handler):
    hub: PushStandIn

    def do_PUT(self) -> None:  # noqa: N802  the name that http.server calls
        self._answer()

    def _serve(self, url: Any, body: bytes, cut_at: int | None) -> None:
        for verb, pattern in _WRITES.items():
            if self.command in ("POST", "PUT") and (found := pattern.fullmatch(url.path)):
                place = {key: unquote(value) for key, value in found.groupdict().items()}
                if verb not in ("put", "validate"):
                    self._check_token()
                with self.hub.writing:
                    getattr(self, f"_{verb}")(place, body)
                return
        super()._serve(url, body, cut_at)

    def _check_token(self) -> None:
        given = self.headers.get("Authorization", "")
        if not given:
            raise RefusedError(401, "", "Invalid username or password.")
        if given != f"Bearer {TOKEN}":
            raise RefusedError(403, "", "Forbidden: you don't have the rights to write here")

    def _create(self, place: dict, body: bytes) -> None:
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.visibility:
            told = {"error": "You already created this model repo", "url": f"{self.hub.endpoint}/{name}"}
            self._send(json.dumps(told).encode(), {"Content-Type": "application/json"}, 409)
            return
        self.hub.visibility[name] = asked.get("visibility", "public")
        folder = self.hub.folder / name / "0"
        folder.mkdir(parents=True)
        (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
        self.hub.add(name, "main", folder)
        self._send_json({"url": f"{self.hub.endpoint}/{name}", "name": name, "id": name})

    def _validate(self, place: dict, body: bytes) -> None:
        content = json.loads(body)["content"]
        metadata = yaml.safe_load(content.split("---\n")[1])
        wrong = [{"message": '"license_name" is required'}] if metadata.get("license") == "other" else []
        answer = json.dumps({"errors": wrong, "warnings": []}).encode()
        self._send(answer, {"Content-Type": "application/json"}, 400 if wrong else 200)

    def _preupload(self, place: dict, body: bytes) -> None:
        head = self.hub.heads[place["name"], place["revision"]]
        files = []
        for asked in json.loads(body)["files"]:
            path = head / asked["path"]
            is_large = asked["path"].endswith(LARGE)
            answer = {
                "path": asked["path"],
                "uploadMode": "lfs" if is_large else "regular",
                "shouldIgnore": False,
            }
            files.append(answer | ({"oid": _oid(path, is_large)} if path.is_file() else {}))
        self._send_json({"files": files})

    def _batch(self, place: dict, body: bytes) -> None:
        asked = json.loads(body)
        assert asked["operation"] == "upload"
        answers = []
        for each in asked["objects"]:
            there = self.hub.large_file(each["oid"]).is_file()
            where = {
                "upload": {"href": f"{self.hub.endpoint}/uploads/{each['oid']}"},
                "verify": {"href": f"{self.hub.endpoint}/verify"},
            }
            answers.append(each if there else each | {"actions": where})
        self._send_json({"transfer": "basic", "objects": answers})

    def _put(self, place: dict, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != place["digest"]:
            raise RefusedError(400, "", "another content")
        path = self.hub.large_file(place["digest"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self._send(b"", {})

    def _verify(self, place: dict, body: bytes) -> None:
        asked = json.loads(body)
        if not self.hub.large_file(asked["oid"]).stat().st_size == asked["size"]:
            raise RefusedError(400, "", "another size")
        self._send_json({})

    def _commit(self, place: dict, body: bytes) -> None:
        head = self.hub.heads[place["name"], place["revision"]]
        folder = self.hub.folder / place["name"] / str(len(self.hub.commits) + 1)
        shutil.copytree(head, folder)
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                continue
            path = folder / value["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry["key"] == "lfsFile":
                shutil.copyfile(self.hub.large_file(value["oid"]), path)
            else:
                assert (entry["key"], value["encoding"]) == ("file", "base64")
                path.write_bytes(base64.b64decode(value["content"]))
        commit = self.hub.add(place["name"], place["revision"], folder)
        self.hub.commits.append((place["name"], place["revision"]))
        self._send_json(
            {"commitUrl": f"{self.hub.endpoint}/{place['name']}/commit/{commit}", "commitOid": commit}
        )


def _oid(path: Path, is_large: bool) -> str:
    content = path.read_bytes()
    if is_large:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
