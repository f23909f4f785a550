"""What a request gets: `guard` judges it, `site` answers, headers that keep pages apart are added. No socket here."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote_to_bytes

from . import wire
from .errors import Refused
from .guard import COOKIE, Guard

LARGEST_BODY = 1 << 20
PAGE_POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
               "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"


@dataclass
class Answer:
    """What a request gets: text or bytes, or a file by its descriptor, which is closed after."""

    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    policy: str = PAGE_POLICY
    headers: dict[str, str] = field(default_factory=dict)
    opener: str = "same-origin"  # who may hold a window of this page: Cross-Origin-Opener-Policy
    file: int | None = None
    length: int = 0


def as_json(document: object, status: int = 200) -> Answer:
    """An answer for the scripts of our pages."""
    try:
        text = json.dumps(document, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:  # NaN or infinity, which JSON does not have but files do
        text = json.dumps(finite(document), separators=(",", ":"), allow_nan=False, default=str)
    return Answer(text.encode(), "application/json", status, DATA_POLICY)


def finite(value: object) -> object:
    """A document with texts in the place of what is no number."""
    if isinstance(value, dict):
        return {key: finite(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(member) for member in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def written(answer: Answer, close: bool) -> bytes:
    """The head of an answer; `close` where the connection ends with it."""
    length = answer.length if answer.file is not None else len(answer.body)
    headers = {"Content-Type": answer.kind, "Content-Length": str(length), "X-Content-Type-Options": "nosniff",
               "Content-Security-Policy": answer.policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
               "Cross-Origin-Opener-Policy": answer.opener}
    if "frame-ancestors 'self'" not in answer.policy:
        headers["X-Frame-Options"] = "DENY"
    if close:
        headers["Connection"] = "close"
    return wire.answer_head(answer.status, {**headers, **answer.headers})


@dataclass
class Request:
    """A request that was let through: its decoded path, the first value of each parameter, all values, its body."""

    method: str
    path: str
    query: dict[str, str]
    every: dict[str, list[str]]
    host: str
    close: bool  # the client wants no other one answered on this connection
    length: int = 0  # of the body
    heard: bytes = b""  # the body as it came
    body: object = None  # and as JSON


class Desk:
    """Lets requests through, has them answered, and says why where it does not."""

    def __init__(self, site: object, guard: Guard) -> None:
        self.site, self.guard = site, guard

    def admit(self, head: wire.Head) -> Request:
        """The request of a head, its body still to come. Refused before a byte of the body is waited for."""
        if head.method not in ("GET", "POST"):
            raise Refused(405, "expected GET or POST")
        if head.chunked:
            raise Refused(411, "expected a body of a length told beforehand")
        if "host" not in head.headers:
            raise Refused(400, "expected one Host, got none")
        self.guard.host(head.headers["host"])
        request = addressed(head)
        if head.method == "GET":
            self._look(head, request)
        else:
            self._change(head, request)
        return request

    def _look(self, head: wire.Head, request: Request) -> None:
        if head.length:
            raise Refused(400, "expected no body with GET")
        if request.path.startswith("/api/"):
            self.guard.page(head.headers)
        if not request.path.startswith("/static/") and not self.guard.known(head.headers, request.query):
            raise Refused(403, "the address lacks the token; use the one that `orrery serve` printed")

    def _change(self, head: wire.Head, request: Request) -> None:
        if not self.guard.known(head.headers, {}):
            raise Refused(403, "the token of this server is missing")
        self.guard.change(head.headers)
        if head.length is None:
            raise Refused(411, "expected a Content-Length")
        if head.length > LARGEST_BODY:
            raise Refused(413, f"expected at most {LARGEST_BODY} bytes")
        if head.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "expected application/json")
        request.length = head.length

    def answer(self, request: Request) -> Answer:
        """What a request gets whose body is there. Always an answer."""
        try:
            return self._get(request) if request.method == "GET" else self._post(request)
        except Refused as refused:
            return self.refusal(request.path, refused)
        except Exception as error:  # a page that breaks must not take the others with it
            told = f"orrery serve: internal fault at {request.path[:200]!a}: {type(error).__name__}: {error}"
            print(told, file=sys.stderr)
            return self.refusal(request.path, Refused(500, f"internal fault: {type(error).__name__}"))

    def _get(self, request: Request) -> Answer:
        answer = self.site.get(request)  # type: ignore[attr-defined]
        if self.guard.beyond and "token" in request.query:
            answer.headers["Set-Cookie"] = f"{COOKIE}={self.guard.token}; HttpOnly; SameSite=Strict; Path=/"
        return answer

    def _post(self, request: Request) -> Answer:
        try:
            request.body = json.loads(request.heard)
        except (ValueError, RecursionError):
            raise Refused(400, "expected JSON") from None
        if not isinstance(request.body, dict):
            raise Refused(400, "expected a JSON object")
        try:
            return self.site.post(request)  # type: ignore[attr-defined]
        except RecursionError:
            raise Refused(400, "expected JSON that is less deep") from None

    def refusal(self, path: str, refused: Refused) -> Answer:
        """One line that says why, as data below /api/ and as a page elsewhere."""
        if path.startswith("/api/"):
            answer = as_json({"error": refused.reason}, refused.status)
        else:
            page = self.site.failure(refused.status, refused.reason)  # type: ignore[attr-defined]
            answer = Answer(page, status=refused.status)
        if refused.status == 405:
            answer.headers["Allow"] = "GET, POST"
        return answer


def addressed(head: wire.Head) -> Request:
    """The request of a head, by its address alone. Refused(400, 404) where that is none of ours."""
    target, _, query = head.target.partition(b"?")
    if not target.startswith(b"/"):
        raise Refused(400, "expected a path")
    try:
        path = unquote_to_bytes(target).decode("utf-8")
        every = parse_qs(query.partition(b"#")[0].decode("utf-8"), keep_blank_values=True, errors="strict",
                         max_num_fields=300)
    except (UnicodeDecodeError, ValueError):
        raise Refused(400, "expected an address in UTF-8") from None
    if "\0" in path or any("\0" in v for values in every.values() for v in values):
        raise Refused(404, "no such page")
    return Request(head.method, path, {k: v[0] for k, v in every.items()}, every, head.headers["host"], head.close)


class Talk:
    """What one client says, request after request, as bytes that come in any pieces. Holds no more than one request.

    `take` bytes, ask `next` for what there is to be done, call `done` when that is answered.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.heard = bytearray()
        self.seen = 0  # bytes that were looked through without finding the end of a head
        self.request: Request | None = None  # whose body is awaited, or that is being answered
        self.close = False  # nothing more is answered after this

    def take(self, data: bytes) -> None:
        """Bytes of the client."""
        self.heard += data

    def next(self) -> Request | Answer | None:
        """A request that is whole, a refusal, or None where more has to come first. After a refusal `close` is set:
        where the next request would begin is not known, or not trusted."""
        path = ""
        try:
            if self.request is None:
                while self.heard.startswith(b"\r\n"):  # some clients send one after a body
                    del self.heard[:2]
                    self.seen = 0
                path = bytes(self.heard[:40]).partition(b" ")[2][:5].decode("latin-1")
                end = wire.end_of_head(self.heard, self.seen)
                if end < 0:
                    self.seen = len(self.heard)
                    return None
                text = bytes(self.heard[:end])
                del self.heard[:end + 4]
                self.seen = 0
                self.request = self.desk.admit(wire.head(text))
            if len(self.heard) < self.request.length:
                return None
        except Refused as refused:
            self.close = True
            self.heard.clear()
            return self.desk.refusal(path, refused)
        self.request.heard = bytes(self.heard[:self.request.length])
        del self.heard[:self.request.length]
        self.close = self.request.close
        return self.request

    def late(self) -> Answer:
        """What a client gets whose request did not come in time."""
        self.close = True
        return self.desk.refusal("", Refused(408, "the request did not come in time"))

    def done(self) -> None:
        """The request is answered; the next one may begin."""
        self.request = None

    @property
    def begun(self) -> bool:
        """Whether part of a request has come."""
        return bool(self.heard) or self.request is not None
