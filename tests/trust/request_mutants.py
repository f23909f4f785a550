"""Honest requests to `orrery serve`, and changes to them: words, headers, lengths, bodies, ends of lines, bytes."""

from __future__ import annotations

import json
import random
import re
import urllib.parse
from collections.abc import Callable

TOKEN = "token-of-this-start"
PORT = 8080

BROWSER = ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
           f"Connection: keep-alive\r\nUser-Agent: some browser\r\nOrigin: http://127.0.0.1:{PORT}\r\n")
CONFIG = {"system": "serving", "model": {"config": "catalog:llama-2-7b"}, "run": {"seed": 1}}
TARGETS = ["/", "/run/a", "/run/deep/b", "/study/s.sqlite", "/compare?run=a&run=deep/b", "/compare?study=s.sqlite",
           "/new?from=run:a", "/new?from=point:s.sqlite%231", "/job/1", "/files/a/summary.json",
           "/files/a/summary.json?view", "/report/a", "/report/s.sqlite", "/report/?of=a&of=deep/b",
           "/static/home.js", "/static/plotly.js", "/static/explorer.css", "/api/index?since=0", "/api/index?since=3",
           "/api/study?path=s.sqlite", "/api/files?path=a", "/api/starts", "/api/schema?system=serving",
           "/api/config?from=run:a", "/api/config?from=file:small.json", "/api/config?from=point:s.sqlite%231",
           "/api/config?from=shipped:search_toy", "/api/jobs", "/api/jobs?id=1", "/api/compare?run=a&run=deep/b",
           "/api/config?from=run:odd", "/api/config?from=run:odder", "/api/compare?run=odd&run=a",
           "/api/compare?run=odder&run=odd", "/api/study?path=odd.sqlite",
           "/api/study?path=pipe.sqlite", "/api/study?path=piped.sqlite", "/api/config?from=point:piped.sqlite%231"]
POSTS = [("/api/validate", {"config": CONFIG}), ("/api/jobs", {"config": CONFIG, "name": "faster", "base": "a"}),
         ("/api/cancel", {"id": 1}), ("/api/jobs", {"config": {}, "name": "x", "base": None})]


def get(target: str) -> bytes:
    """An honest request for a page or for data."""
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nCookie: orrery={TOKEN}\r\n{BROWSER}\r\n".encode()


def post(target: str, body: bytes) -> bytes:
    """An honest change."""
    return (f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\n"
            f"X-Orrery-Token: {TOKEN}\r\nCookie: orrery={TOKEN}\r\n{BROWSER}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


HONEST = [*map(get, TARGETS), *(post(target, json.dumps(body).encode()) for target, body in POSTS * 4)]

# -- mutations ----------------------------------------------------------------------------------------------------

METHODS = [b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"get", b"POST", b"GET", b"", b"G\0T", b"GET\t", b"PRI",
           b"X" * 300]
VERSIONS = [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.1 ", b"HTTP/1.10", b"http/1.1", b"", b"HTTP/+1.1",
            b"HTTP/1.1\t"]
NAMES = ["..", "../outside.json", "%2e%2e/outside.json", "..%2foutside.json", "%2e%2e%2foutside", "%252e%252e",
         "/etc/passwd", "//etc/passwd", "a/link.json", "linked", "linked/summary.json", "loop/a", "%00", "a%00",
         "%ff", "%c0%ae%c0%ae/", ".hidden", "a/../../outside.json", "..%5coutside.json", "a/pipe.csv", "%0d%0aX: y",
         "%0a", "x" * 300, "x/" * 600, "%", "%zz", "%u0041", "ä", "%ed%a0%80", "%f0%9f%98%80", "\"><b>", "'", "a/.",
         "a//summary.json", "odd", "odd.sqlite", "empty", "pulled", "s.sqlite-wal", "run:../outside",
         "file:../outside.json", "point:../x.sqlite#1", "point:s.sqlite#99999999999", "shipped:../../x", "#", "?",
         "&", "run:odd", "0", "-1", "1e9", "9" * 50, "\u0661", "", "null"]
LENGTHS = [b"abc", b"-1", b"+5", b"1e3", b" 5 5", b"0x10", b"5,5", b"5_0", b"", b"9" * 40, b"9" * 15, b"\xb2", b"00",
           b"0", b"1", b"7", b"1048577", b"1048576"]
HEADERS = [b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"transfer-encoding : chunked",
           b"Content-Length: 0", b"Content-Length: 5", b"Host: evil.example", b"Host: 127.0.0.1:8080", b"Host:",
           b"Connection: close", b"Connection: x, CLOSE", b"Expect: 100-continue", b"Upgrade: h2c", b": x", b"X",
           b" folded", b"\tfolded", b"X: \0", b"X: \xff\xfe", b"X:" + b" " * 3000, b"Origin: null",
           b"Sec-Fetch-Site: cross-site", b"X-Orrery-Token: guess", b"X-Orrery-Token: \xe9", b"Cookie: =;;,\"",
           b"Cookie: orrery=\"\\012\"", b"Content-Type: text/plain", b"Content-Type: application/json; charset=utf-7",
           b"Range: bytes=0-1", b"Y: " + b"y" * 9000]
BODIES: list[bytes] = [b"", b"{", b"[]", b"null", b"\xff", b"[" * 3000, b'{"a":' * 2000, b"NaN", b'{"id": 1e999}',
                       b'{"id": -1}', b'{"id": {"a": []}}', b'{"config": {}}', b'{"config": []}',
                       b'{"config": {}, "name": "../x"}', b'{"config": {}, "name": "n", "base": [1]}',
                       b'{"config": {}, "name": "\\ud800"}', b"9" * 5000, b"\0" * 50,
                       b'{"config": {"a": NaN, "b": "\\udfff"}, "name": 7}',
                       b'{"config": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}",
                       b'{"name": ' + b"[" * 950 + b"]" * 950 + b', "config": {}}',
                       b'{"id": ' + b"[" * 980 + b"]" * 980 + b"}", '{"config": {}, "name": "ä"}'.encode("utf-16"),
                       b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"x" * 70_000]
JUNK = [b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b":", b"%", b"/", b"?", b"\xff", b"\xc3\x28",
        b"\x0b", b"\x85", b"\xa0", b"..", b"\\", b";", b",", b"=", b"&", b"#", b"\"", b"<", b"\x7f"]

Change = Callable[[bytes, random.Random], bytes]


def in_first_line(number: int, values: list[bytes]) -> Change:
    """Another word in the place of the first line's method, address or version."""
    def change(said: bytes, stream: random.Random) -> bytes:
        line, end, rest = said.partition(b"\r\n")
        words = line.split(b" ", 2)
        if len(words) > number:
            words[number] = stream.choice(values)
        return b" ".join(words) + end + rest

    return change


def change_target(said: bytes, stream: random.Random) -> bytes:
    """A name that leads elsewhere, in a part of the address; or another encoding of it."""
    line, end, rest = said.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) < 2:
        return said
    target, name = words[1].decode("latin-1"), stream.choice(NAMES)
    if stream.random() < 0.3:
        name = urllib.parse.quote(name, safe="")
    places = [m.start() for m in re.finditer(r"[/=:?&]", target)] or [0]
    place = stream.choice(places) + 1
    kind = stream.randrange(5)
    if kind == 0:
        target = target[:place] + name
    elif kind == 1:
        target = target[:place] + name + "/" + target[place:]
    elif kind == 2:
        target = target + name
    elif kind == 3:
        target = "".join(f"%{ord(c):02x}" if ord(c) < 256 and stream.random() < 0.3 else c for c in target)
    else:
        target = (target + "&" + target.rpartition("?")[2]) * stream.choice([1, 2, 20])
    words[1] = target.encode("utf-8")
    return b" ".join(words) + end + rest


def change_length(said: bytes, stream: random.Random) -> bytes:
    return re.sub(rb"(?i)(content-length:)[^\r\n]*", lambda found: found[1] + b" " + stream.choice(LENGTHS), said,
                  count=1)


def change_header(said: bytes, stream: random.Random) -> bytes:
    """A header more, less, twice, or with another value."""
    head, empty, body = said.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    place = stream.randrange(len(lines))
    kind = stream.randrange(6)
    if kind < 3:
        lines.insert(place + 1, stream.choice(HEADERS))
    elif kind == 3 and len(lines) > 1:
        del lines[place]
    elif kind == 4:
        lines.insert(place, lines[place])
    else:
        lines[place] = lines[place].partition(b":")[0] + b": " + stream.choice([*LENGTHS, *JUNK, b"evil.example"])
    return b"\r\n".join(lines) + empty + body


def change_body(said: bytes, stream: random.Random) -> bytes:
    """Another body, more often than not of the length that is told."""
    head, empty, _ = said.partition(b"\r\n\r\n")
    body = stream.choice(BODIES) if stream.random() < 0.9 else stream.choice(HONEST)
    if stream.random() < 0.8:
        head = re.sub(rb"(?i)(content-length:)[^\r\n]*", b"\\1 %d" % len(body), head, count=1)
    return head + empty + body


def change_ends(said: bytes, stream: random.Random) -> bytes:
    """Other ends of lines: of all, or of one."""
    end = stream.choice([b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b"\r\n\r\n", b""])
    if stream.random() < 0.3:
        return said.replace(b"\r\n", end)
    places = [found.start() for found in re.finditer(b"\r\n", said)]
    if not places:
        return said
    place = stream.choice(places)
    return said[:place] + end + said[place + 2:]


def change_bytes(said: bytes, stream: random.Random) -> bytes:
    place = stream.randrange(len(said) + 1)
    junk = stream.choice(JUNK) if stream.random() < 0.6 else bytes([stream.randrange(256)])
    cut = stream.choice([0, 0, 1, 1, 2, 20])
    return said[:place] + junk + said[place + cut:]


def cut_off(said: bytes, stream: random.Random) -> bytes:
    return said[:stream.randrange(len(said) + 1)]


def repeat(said: bytes, stream: random.Random) -> bytes:
    begin, end = sorted(stream.randrange(len(said) + 1) for _ in range(2))
    return said[:end] + said[begin:end] * stream.choice([1, 2, 9]) + said[end:]


def pipeline(said: bytes, stream: random.Random) -> bytes:
    """Another request before or after, or in the middle."""
    other = stream.choice(HONEST)
    place = stream.choice([0, len(said), len(said), len(said), stream.randrange(len(said) + 1)])
    return said[:place] + stream.choice([b"", b"", b"\r\n"]) + other + said[place:]


def swell(said: bytes, stream: random.Random) -> bytes:
    """So much of something that a limit is met."""
    kind, place = stream.randrange(4), said.find(b"\r\n") + 2
    if kind == 3:
        return said.replace(b"/", b"/" + b"x" * stream.choice([2000, 70_000]), 1)
    much = [b"X: y\r\n" * stream.choice([90, 101, 5000]),
            b"X: " + b"x" * stream.choice([60_000, 65_500, 200_000]) + b"\r\n", b"\r\n" * 3000][kind]
    return said[:place] + much + said[place:]


CHANGES: list[Change] = [in_first_line(0, METHODS), in_first_line(2, VERSIONS), change_length, change_header,
                         change_header, change_body, change_body, change_ends, change_bytes, change_bytes, cut_off,
                         repeat, pipeline, *[change_target] * 5]
MOST = 400_000  # bytes of an input


def draw(seed: int, number: int) -> tuple[bytes, random.Random]:
    """Input `number` of a seed, and the stream that its later choices come from."""
    stream = random.Random(seed << 40 | number)
    said = stream.choice(HONEST)
    for _ in range(stream.choice([1, 1, 1, 2, 2, 3, 5])):
        said = (stream.choice(CHANGES) if stream.random() < 0.997 else swell)(said, stream)
    return said[:MOST], stream
