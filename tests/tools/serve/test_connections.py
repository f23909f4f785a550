"""Clients that keep the server waiting, and those of other users: honest requests are answered beside them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

from support import Served, ServedTest, made_up

from orrery_serve import guard, server as servers, web, wire  # noqa: E402
from orrery_serve.errors import Refused  # noqa: E402
from orrery_serve.site import Site  # noqa: E402

HALF_OPEN = 500
WITHIN_S = 1.0
BUSY = 20  # times what a request takes without them, for a machine that has much else to do
LARGE = 32 << 20  # of a file that no socket's buffers hold
GROWTH = 96 << 20  # of the server's memory, with all of them connected
GET = "GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n"
POST = ("POST {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Orrery-Token: {}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n")


def status_of(process: int, name: str) -> int:
    """A number of /proc/PID/status."""
    return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)[1])


def everything(client: socket.socket, limit_s: float = 10.0) -> bytes:
    """What is sent until the connection ends, or nothing more comes for a while."""
    client.settimeout(limit_s)
    parts = []
    with contextlib.suppress(OSError):
        while data := client.recv(1 << 16):
            parts.append(data)
    return b"".join(parts)


def few_descriptors() -> bool:
    """Raises the limit of open files where it is too low for the test; whether that cannot be done."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * HALF_OPEN + 100
    if soft < wanted <= hard or (soft < wanted and hard == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return soft < wanted


@unittest.skipIf(few_descriptors(), "too few open files are allowed here")
class HalfOpen(ServedTest):
    """500 clients of each kind, which stay while honest ones come."""

    @classmethod
    def fill(cls, folder: Path) -> None:
        made_up(folder / "a")
        (folder / "large.bin").write_bytes(bytes(LARGE))

    def setUp(self) -> None:
        self.server.post("validate", {"config": {}})
        self.before = status_of(self.server.process.pid, "VmRSS")

    def crowd(self, first: bytes, drip: bytes = b"", buffer: int = 0) -> contextlib.ExitStack:
        """Connects them, sends `first` from each, then a byte of `drip` from each again and again."""
        stack = contextlib.ExitStack()
        clients = []
        for _ in range(HALF_OPEN):
            client = stack.enter_context(socket.socket())
            if buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            client.settimeout(5)
            client.connect(("127.0.0.1", self.server.port))
            with contextlib.suppress(OSError):  # one that gave way already
                client.sendall(first)
            clients.append(client)
        stop = threading.Event()

        def dripping() -> None:
            while not stop.wait(0.2):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.send(drip)

        if drip:
            thread = threading.Thread(target=dripping)
            thread.start()
            stack.callback(thread.join)
            stack.callback(stop.set)
        return stack

    def slowest(self) -> float:
        """Of nine honest requests; without end if one was told to come back, as a busy server does."""
        slowest = 0.0
        for target in ["/", "/files/a/summary.json", "/api/index?since=0"] * 3:
            begin = time.monotonic()
            status, _, body = self.server.ask(target)
            slowest = max(slowest, time.monotonic() - begin if status != 503 else math.inf)
            self.assertIn((status, bool(body)), [(200, True), (503, True)])
        return slowest

    def honest(self, *crowd: object, **kind: object) -> None:
        """Answers in time; on a machine that has much else to do at the third attempt at last."""
        for attempt in range(3):
            alone, slowest = self.attempt(*crowd, **kind)
            if slowest < WITHIN_S:
                return
        self.assertLess(slowest, WITHIN_S + BUSY * alone)

    def attempt(self, *crowd: object, **kind: object) -> tuple[float, float]:
        """The slowest honest answer without a crowd, and with one."""
        alone = self.slowest()
        begin = time.monotonic()
        with self.crowd(*crowd, **kind):
            connecting, slowest = time.monotonic() - begin, self.slowest()
            self.assertEqual(self.server.post("validate", {"config": {}})[0], 200)
            process = self.server.process.pid
            grown = (status_of(process, "VmRSS") - self.before) << 10
            threads = status_of(process, "Threads")
        print(f"\n{self.id().rpartition('.')[2]}: connected in {connecting:.2f} s, "
              f"slowest honest answer {slowest * 1e3:.0f} ms ({alone * 1e3:.0f} ms without them), "
              f"{threads} threads, {grown / 2**20:+.1f} MiB", file=sys.stderr)
        self.assertLess(grown, GROWTH)
        self.assertLess(threads, servers.WORKERS + 10)
        return alone, slowest

    def test_silent(self):
        self.honest(b"")

    def test_slow_headers(self):
        self.honest(b"GET / HTTP/1.1\r\nX: ", b"x")

    def test_endless_headers(self):
        self.honest(b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000, b"x")

    def test_slow_bodies(self):
        head = POST.format("/api/validate", self.server.port, self.server.token, web.LARGEST_BODY)
        self.honest(head.encode() + b"{", b" ")

    def test_answers_that_are_not_read(self):
        self.honest(GET.format("/files/large.bin", self.server.port).encode(), buffer=1 << 12)

    def test_a_large_file_comes_whole_to_one_who_reads(self):
        with self.crowd(b""):
            self.assertEqual(self.server.ask("/files/large.bin")[2], bytes(LARGE))


class Answering:
    """A site that answers at once, or when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def get(self, request: web.Request) -> web.Answer:
        if request.path == "/slow":
            self.begun.release()
            self.go.wait(20)
        return web.Answer(request.path.encode())

    post = get
    failure = Site.failure
    _shell = Site._shell
    guard = unittest.mock.Mock(token="t")
    folder = unittest.mock.Mock(root="/")
    runner = None


class InProcess(unittest.TestCase):
    """A server in this process, with times that a test can wait for."""

    times = {"REQUEST_S": 0.6, "IDLE_S": 0.4, "STALL_S": 0.6, "LINGER_S": 0.2, "TICK_S": 0.05, "CONNECTIONS": 8}

    def setUp(self) -> None:
        for name, value in self.times.items():
            patch = unittest.mock.patch.object(servers, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        listening = servers.listen_at("127.0.0.1", 0)
        self.guard = guard.Guard(listening.getsockname()[1], ())
        self.site = Answering()
        self.desk = web.Desk(self.site, self.guard)
        self.server = servers.Server([listening], self.desk, self.guard)
        thread = threading.Thread(target=self.server.serve)
        thread.start()
        self.addCleanup(thread.join, 5)
        self.addCleanup(self.server.end)
        self.addCleanup(self.site.go.set)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.guard.port), timeout=5)
        self.addCleanup(client.close)
        return client

    def ask(self, target: str) -> bytes:
        client = self.connect()
        said = GET.format(target, self.guard.port).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        client.sendall(said.encode())
        return everything(client)

    def test_a_request_has_a_total_time_however_its_bytes_come(self):
        post = POST.format("/x", self.guard.port, self.guard.token, 900)
        for first in ("GET / HTTP/1.1\r\nX: ", post):
            client, begin = self.connect(), time.monotonic()
            client.sendall(first.encode())
            with selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ)
                while not selector.select(0.05) and time.monotonic() - begin < 5:
                    client.send(b"x")
            took = time.monotonic() - begin
            self.assertIn(b"408 Request Timeout", everything(client))
            self.assertTrue(0.4 < took < 2, took)

    def test_silent_ones_are_closed_without_a_word(self):
        begin = time.monotonic()
        self.assertEqual(everything(self.connect()), b"")
        self.assertLess(time.monotonic() - begin, 2)
        client = self.connect()  # one that sends ends of lines alone has not begun a request
        for _ in range(40):
            time.sleep(0.05)
            try:
                client.send(b"\r\n")
            except OSError:
                return
        self.fail("still open")

    def test_the_oldest_gives_way(self):
        old = [self.connect() for _ in range(8)]
        for client in old:
            client.send(b"GET / ")
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            old[0].send(b"H")  # saying a little now and then keeps no place
        self.assertIn(b"200 OK", self.ask("/"))
        self.assertEqual(everything(old[0], 0.2), b"")
        old[7].sendall(GET.format("/late", self.guard.port)[6:].encode().replace(b"late", b"", 1))
        self.assertNotEqual(everything(old[7], 1), b"")

    def test_what_is_being_answered_gives_way_to_nobody(self):
        slow = self.connect()
        slow.sendall(GET.format("/slow", self.guard.port).encode())
        self.assertTrue(self.site.begun.acquire(timeout=5))
        for _ in range(40):
            self.connect()
        self.assertIn(b"200 OK", self.ask("/"))
        self.site.go.set()
        self.assertTrue(everything(slow, 1.0).endswith(b"/slow"))

    def test_full_of_requests_that_are_answered(self):
        for _ in range(8):
            self.connect().sendall(GET.format("/slow", self.guard.port).encode())
        for _ in range(8):
            self.assertTrue(self.site.begun.acquire(timeout=5))
        self.assertIn(b"503 Service Unavailable", everything(self.connect()))

    def test_requests_one_after_the_other(self):
        client = self.connect()
        one = GET.format("/a", self.guard.port)
        client.sendall((one + one.replace("/a", "/b") + one.replace("/a", "/slow") + one.replace("/a", "/c")).encode())
        self.site.go.set()
        told = everything(client, 0.3)
        self.assertEqual(re.findall(rb"\r\n\r\n(/[a-z]+)", told), [b"/a", b"/b", b"/slow", b"/c"])

    def test_one_who_has_said_all_is_answered(self):
        client = self.connect()
        client.sendall(GET.format("/a", self.guard.port).encode())
        client.shutdown(socket.SHUT_WR)
        self.assertTrue(everything(client).endswith(b"\r\n\r\n/a"))

    def test_a_fault_of_the_loop_ends_one_connection(self):
        with unittest.mock.patch.object(web.Talk, "take", side_effect=ValueError), \
                contextlib.redirect_stderr(unittest.mock.Mock()):
            self.assertEqual(self.ask("/"), b"")
        self.assertIn(b"200 OK", self.ask("/"))

    def test_what_is_held_is_bounded(self):
        with unittest.mock.patch.object(servers, "HELD", 4 << 20), \
                unittest.mock.patch.object(self.site, "get", lambda request: web.Answer(bytes(3 << 20))):
            clients = []
            for _ in range(6):
                client = socket.socket()
                self.addCleanup(client.close)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", self.guard.port))
                client.sendall(GET.format("/", self.guard.port).encode())
                clients.append(client)
            time.sleep(0.2)
            self.assertLessEqual(sum(line.held() for line in list(self.server.lines)), 4 << 20)

    def test_strangers_take_no_place_and_are_not_read(self):
        with unittest.mock.patch.object(guard, "owner", return_value=os.getuid() + 5), \
                unittest.mock.patch.object(servers, "Talk") as talk:
            told = self.ask("/")
        self.assertIn(b"403 Forbidden", told)
        self.assertIn(b"another user of this machine", told)
        talk.assert_not_called()
        self.assertEqual(self.server.lines, set())

    def test_strangers_do_not_push_others_out(self):
        mine = [self.connect() for _ in range(8)]
        time.sleep(0.1)
        with unittest.mock.patch.object(guard, "owner", return_value=os.getuid() + 5):
            for _ in range(20):
                self.assertIn(b"403", everything(self.connect()))
        mine[0].sendall(GET.format("/mine", self.guard.port).encode())
        self.assertIn(b"200 OK", mine[0].recv(1 << 16))

    def test_a_line_says_what_is_wrong_and_the_connection_ends(self):
        """Nothing after a request of unclear length is taken for another one."""
        inner = GET.format("/inner", self.guard.port)
        for headers in ("Content-Length: abc", "Content-Length: -1", "Content-Length: +5", "Content-Length: 1e3",
                        "Content-Length:  5 5", "Content-Length: 5, 5", "Content-Length: 0x5", "Content-Length: 5_0",
                        "Content-Length:", "Content-Length: \u0665", "Content-Length: " + "9" * 19,
                        "Content-Length: 5\r\nContent-Length: 6",
                        "Content-Length: 5\r\ncontent-length: 5", "Content-Length: 5\r\nTransfer-Encoding: chunked",
                        "Transfer-Encoding: chunked\r\nContent-Length: 0", "Content-Length : 5",
                        "Content-Length: 5\r\n 6", "X: a\nContent-Length: 5", "X: a\rContent-Length: 5"):
            for method in ("GET", "POST"):
                client = self.connect()
                first = f"{method} /api/x HTTP/1.1\r\nHost: 127.0.0.1:{self.guard.port}\r\n"
                client.sendall(f"{first}{headers}\r\n\r\n{inner}".encode())
                told = everything(client)
                with self.subTest(headers=headers, method=method):
                    self.assertEqual(told.count(b"HTTP/1.1 "), 1, told)
                    self.assertTrue(told.startswith(b"HTTP/1.1 400 Bad Request\r\n"), told[:60])
                    self.assertIn(b"\r\nConnection: close\r\n", told)
                    reason = json.loads(told.partition(b"\r\n\r\n")[2])["error"]
                    self.assertEqual((reason.count("\n"), "expected" in reason), (0, True))

    def test_bodies_too_large(self):
        for length in (web.LARGEST_BODY + 1, 10**18 - 1):
            client = self.connect()
            client.sendall(POST.format("/api/x", self.guard.port, self.guard.token, length).encode())
            told = everything(client)
            self.assertTrue(told.startswith(b"HTTP/1.1 413 "), told[:60])
            self.assertIn(b"\r\nConnection: close\r\n", told)

    def test_the_reason_is_heard_though_a_body_is_still_coming(self):
        client = self.connect()
        client.sendall((f"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{self.guard.port}\r\n"
                        "Content-Length: 900000\r\n\r\n").encode() + bytes(900_000))
        self.assertTrue(everything(client).startswith(b"HTTP/1.1 403 "))


class Owners(unittest.TestCase):
    """Whose a connection is, by each way of asking the kernel."""

    def test_each_way_tells(self):
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_INET6) as mapped, \
                socket.create_connection(listening.getsockname()) as plain:
            mapped.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            mapped.connect(("::ffff:127.0.0.1", listening.getsockname()[1]))
            for client in (plain, mapped):
                theirs = ("127.0.0.1", client.getsockname()[1])
                self.assertEqual(guard.listed(theirs, listening.getsockname()), os.getuid())
                self.assertIn(guard.asked(theirs, listening.getsockname()), (os.getuid(), None))
            self.assertIsNone(guard.owner(("127.0.0.1", 1), ("127.0.0.1", 2)))

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_another_user_is_refused(self):
        """For real, by IPv4, by IPv6 and as IPv4 within IPv6."""
        script = ("import os, socket, sys; os.setgid(65534); os.setuid(65534); "
                  "s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); s.settimeout(5); "
                  "s.connect((sys.argv[1], int(sys.argv[2]))); "
                  "s.sendall(f'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{sys.argv[2]}\\r\\n\\r\\n'.encode()); "
                  "print(s.recv(1 << 16))")
        with tempfile.TemporaryDirectory() as place:
            server = Served(Path(place))
            try:
                for address in ("127.0.0.1", "::ffff:127.0.0.1"):
                    told = subprocess.run([sys.executable, "-c", script, address, str(server.port)],
                                          capture_output=True, text=True,
                                          timeout=20, check=False)
                    self.assertIn("403 Forbidden", told.stdout, (address, told.stderr))
                self.assertEqual(server.ask("/")[0], 200)
            finally:
                server.end()
        # And with the server another user's, whom root may visit.
        with unittest.mock.patch("os.getuid", return_value=7), \
                unittest.mock.patch.object(guard, "owner", return_value=8):
            self.assertRaises(Refused, guard.Guard(1, ()).peer, ("127.0.0.1", 1), ("127.0.0.1", 2))

    def test_zones_are_no_part_of_a_host(self):
        self.assertFalse(guard.literal("[fe80::1%x; script-src *]"))


class Heads(unittest.TestCase):
    """A head taken apart."""

    def test_right_ones(self):
        head = wire.head(b"POST /a?b HTTP/1.1\r\nHost:h\r\nContent-Length:\t 007 \r\nAccept: a\r\nACCEPT: b\r\n"
                         b"Connection: x, Close")
        self.assertEqual((head.method, head.target, head.length, head.close), ("POST", b"/a?b", 7, True))
        self.assertEqual(head.headers["accept"], "a, b")
        self.assertTrue(wire.head(b"GET / HTTP/1.0\r\nHost: h").close)

    def test_wrong_ones(self):
        for text in (b"", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ", b" GET / HTTP/1.1", b"GET / HTTP/2.0",
                     b"GET / http/1.1", b"GET / HTTP/+1.1", b"GET /\x00 HTTP/1.1", b"G\xc9T / HTTP/1.1",
                     b"GET /\xa0x y HTTP/1.1",
                     b"GET / HTTP/1.1\r\n",
                     b"GET / HTTP/1.1\r\n: x", b"GET / HTTP/1.1\r\nX", b"GET / HTTP/1.1\r\nX: \x00",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: a"):
            with self.subTest(text=text):
                self.assertRaises(Refused, wire.head, text)

    def test_long_ones_are_refused_before_they_end(self):
        for text, status in ((b"x" * (wire.LARGEST_HEAD + 4), 414),
                             (b"GET / HTTP/1.1\r\nX: " + b"x" * wire.LARGEST_HEAD, 431),
                             (b"GET / HTTP/1.1\nHost: x", 400)):
            with self.assertRaises(Refused) as caught:
                wire.end_of_head(bytearray(text), 0)
            self.assertEqual(caught.exception.status, status)
        with self.assertRaises(Refused) as caught:
            wire.head(b"GET / HTTP/1.1" + b"\r\nX: y" * (wire.MOST_HEADERS + 1))
        self.assertEqual(caught.exception.status, 431)

    def test_spaces_take_no_time(self):
        begin = time.process_time()
        self.assertRaises(Refused, wire.head, b"GET / HTTP/1.1\r\nX: " + b" " * 65_000 + b"\x00")
        wire.head(b"GET / HTTP/1.1\r\nHost: " + b" \t" * 32_000 + b"x")
        self.assertLess(time.process_time() - begin, 0.5)


if __name__ == "__main__":
    unittest.main()
