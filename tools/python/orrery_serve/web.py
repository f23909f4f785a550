"""HTTP: reads a request, lets `guard` judge it, hands it to `site`, and answers with headers that keep pages apart."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_to_bytes

from .errors import Refused
from .guard import COOKIE, Guard

LARGEST_BODY = 1 << 20
CONNECTIONS = 96
IDLE_S = 30.0
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


@dataclass
class Request:
    """A request that was let through: its decoded path, the first value of each parameter, all values, its body."""

    path: str
    query: dict[str, str]
    every: dict[str, list[str]]
    host: str
    body: object = None


class Server(ThreadingHTTPServer):
    """One listening address. `site` answers, `guard` judges."""

    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(self, address: str, port: int, site: object, guard: Guard) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.site, self.guard = site, guard
        self.slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((address, port), Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Not HTTPServer's, which asks the name service for our name.
        ThreadingHTTPServer.__mro__[2].server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: object, client_address: object) -> None:
        if not self.slots.acquire(timeout=5.0):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"orrery serve: internal fault: {type(error).__name__}: {error}", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "orrery", ""
    timeout = IDLE_S
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.stranger = ""
        try:
            self.server.guard.peer(self.connection.getsockname(), self.client_address)
        except Refused as refused:
            self.stranger = refused.reason

    def log_message(self, *_: object) -> None:
        """Nothing: a terminal that serves is for what goes wrong."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong, in our form."""
        self.close_connection = True
        if code == 501 and message and message.startswith("Unsupported method"):
            self._send(self._refusal(405, "expected GET or POST", {"Allow": "GET, POST"}))
        else:
            self._send(self._refusal(code, message or "bad request"))

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, make: object) -> None:
        try:
            answer = make()  # type: ignore[operator]
        except Refused as refused:
            answer = self._refusal(refused.status, refused.reason)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # a page that breaks must not take the others with it
            told = f"orrery serve: internal fault at {self.path[:200]}: {type(error).__name__}: {error}"
            print(told, file=sys.stderr)
            answer = self._refusal(500, f"internal fault: {type(error).__name__}")
        if answer.status >= 400 and self.command == "POST":
            self.close_connection = True  # its body may not have been read
        self._send(answer)

    def _refusal(self, status: int, reason: str, headers: dict[str, str] | None = None) -> Answer:
        if getattr(self, "path", "").startswith("/api/"):
            answer = as_json({"error": reason}, status)
        else:
            site = self.server.site
            answer = Answer(site.failure(status, reason), status=status)  # type: ignore[attr-defined]
        answer.headers.update(headers or {})
        return answer

    def _request(self) -> Request:
        guard = self.server.guard
        if self.stranger:
            raise Refused(403, self.stranger)
        if len(self.headers.get_all("Host", [])) != 1:
            raise Refused(400, "expected one Host header")
        guard.host(self.headers["Host"])
        target, _, query = self.path.partition("?")
        if not target.startswith("/"):
            raise Refused(400, "expected a path")
        try:
            path = unquote_to_bytes(target).decode("utf-8")
            every = parse_qs(query.partition("#")[0], keep_blank_values=True, errors="strict", max_num_fields=300)
        except (UnicodeDecodeError, ValueError):
            raise Refused(400, "expected an address in UTF-8") from None
        if "\0" in path or any("\0" in v for values in every.values() for v in values):
            raise Refused(404, "no such page")
        return Request(path, {k: v[0] for k, v in every.items()}, every, self.headers["Host"])

    def _get(self) -> Answer:
        request = self._request()
        guard = self.server.guard
        if request.path.startswith("/api/"):
            guard.page(self.headers)
        if not request.path.startswith("/static/") and not guard.known(self.headers, request.query):
            raise Refused(403, "the address lacks the token; use the one that `orrery serve` printed")
        answer = self.server.site.get(request)  # type: ignore[attr-defined]
        if guard.beyond and "token" in request.query:
            answer.headers["Set-Cookie"] = f"{COOKIE}={guard.token}; HttpOnly; SameSite=Strict; Path=/"
        return answer

    def _post(self) -> Answer:
        request = self._request()
        guard = self.server.guard
        if not guard.known(self.headers, {}):
            raise Refused(403, "the token of this server is missing")
        guard.change(self.headers)
        if self.headers.get("Transfer-Encoding"):
            raise Refused(411, "expected a body of a length told beforehand")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise Refused(411, "expected a Content-Length")
        if len(length) > 10 or int(length) > LARGEST_BODY:
            raise Refused(413, f"expected at most {LARGEST_BODY} bytes")
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "expected application/json")
        try:
            request.body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refused(400, "expected JSON") from None
        if not isinstance(request.body, dict):
            raise Refused(400, "expected a JSON object")
        return self.server.site.post(request)  # type: ignore[attr-defined]

    def _send(self, answer: Answer) -> None:
        try:
            length = answer.length if answer.file is not None else len(answer.body)
            self.send_response(answer.status)
            headers = {"Content-Type": answer.kind, "Content-Length": str(length), "X-Content-Type-Options": "nosniff",
                       "Content-Security-Policy": answer.policy, "Referrer-Policy": "no-referrer",
                       "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin"}
            if "frame-ancestors 'self'" not in answer.policy:
                headers["X-Frame-Options"] = "DENY"
            if self.close_connection:
                headers["Connection"] = "close"
            for name, value in {**headers, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if answer.file is None:
                self.wfile.write(answer.body)
            else:
                self._send_file(answer.file, length)
        finally:
            if answer.file is not None:
                os.close(answer.file)

    def _send_file(self, descriptor: int, length: int) -> None:
        """As many bytes as were told, even if the file has grown or shrunk since."""
        left = length
        while left > 0:
            data = os.read(descriptor, min(left, 1 << 18))
            if not data:
                self.close_connection = True
                return
            self.wfile.write(data)
            left -= len(data)
