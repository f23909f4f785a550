"""HTTP/1.1 as bytes: one request's head taken apart, one answer's head put together. No socket, no waiting.

Only what cannot be read in two ways is taken. Programs in front of a server and the server itself may otherwise see
different requests in the same bytes, and one of them hides in another (RFC 9112, section 11.2). So a line ends with
CR LF alone, a name is a token that ends at its colon, no header is continued on the next line, and a body's length is
one decimal number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

from .errors import Refused

LARGEST_HEAD = 1 << 16  # a comparison of twelve long names, or the cookies of every other server on `localhost`
MOST_HEADERS = 100
LONGEST_NUMBER = 18  # digits of a body's length: more do not fit 64 bits
TOKEN = rb"[!#-'*+.^_`|~0-9A-Za-z-]+"
FIRST = re.compile(rb"(%b) ([\x21-\x7e\x80-\xff]+) HTTP/1\.([01])" % TOKEN)
HEADER = re.compile(rb"(%b):([^\x00-\x08\x0a-\x1f\x7f]*)" % TOKEN)


@dataclass
class Head:
    """What stands before a request's body. Names of headers are in small letters."""

    method: str
    target: bytes
    headers: dict[str, str]
    length: int | None  # of the body, where it is told
    chunked: bool  # the body has a Transfer-Encoding in place of a length
    close: bool  # the client wants no other request answered on this connection


def end_of_head(heard: bytearray, seen: int) -> int:
    """Where the empty line after a head begins; -1 if it has not come yet. Before `seen` there is none.

    Refused(400, 414, 431) as soon as it is certain that no good head will come.
    """
    begin, most = max(0, seen - 3), LARGEST_HEAD + 4
    end = heard.find(b"\r\n\r\n", begin, most)
    if stray(heard, begin, end if end >= 0 else min(most, len(heard))):
        raise Refused(400, "expected lines that end with CR LF")
    if end < 0 and len(heard) >= most:
        if heard.find(b"\r\n", 0, most) < 0:
            raise Refused(414, f"expected an address of at most {LARGEST_HEAD} bytes")
        raise Refused(431, f"expected headers of at most {LARGEST_HEAD} bytes")
    return end


def stray(heard: bytearray, begin: int, end: int) -> bool:
    """Whether half of a line's end stands alone. A CR that is the last byte may be half of one still to come."""
    begin -= heard[max(0, begin - 1):begin + 1] == b"\r\n"  # it was looked at with its CR only
    whole = heard.count(b"\r\n", begin, end)  # counting is many times as quick as a regular expression
    returns = heard.count(b"\r", begin, end) - (end > begin and heard[end - 1] == 13)
    return heard.count(b"\n", begin, end) != whole or returns != whole


def head(text: bytes) -> Head:
    """A head without its empty line, taken apart. Refused(400, 431) with one line where it is not right."""
    first, *lines = text.split(b"\r\n")
    found = FIRST.fullmatch(first)
    if not found:
        raise Refused(400, "expected METHOD ADDRESS HTTP/1.1")
    if len(lines) > MOST_HEADERS:
        raise Refused(431, f"expected at most {MOST_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        pair = HEADER.fullmatch(line)
        if not pair:
            raise Refused(400, "expected headers of the form NAME: VALUE")
        name, value = pair[1].decode("ascii").lower(), pair[2].strip(b" \t").decode("latin-1")
        if name in headers and name in ("host", "content-length", "transfer-encoding"):
            raise Refused(400, f"expected one {name.title()}, got two")
        # Two of any other name are a list: of no use where one value must be right.
        headers[name] = value if name not in headers else headers[name] + ("; " if name == "cookie" else ", ") + value
    length, chunked = body(headers)
    wishes = {wish.strip() for wish in headers.get("connection", "").lower().split(",")}
    return Head(found[1].decode("ascii"), found[2], headers, length, chunked, "close" in wishes or found[3] == b"0")


def body(headers: dict[str, str]) -> tuple[int | None, bool]:
    """The length of the body that follows, and whether it has a Transfer-Encoding instead. Refused(400) if unclear."""
    told, chunked = headers.get("content-length"), "transfer-encoding" in headers
    if told is None:
        return None, chunked
    if chunked:
        raise Refused(400, "expected Content-Length or Transfer-Encoding, got both")
    if not (told.isascii() and told.isdigit() and len(told) <= LONGEST_NUMBER):
        raise Refused(400, f"Content-Length: expected a whole number of at most {LONGEST_NUMBER} digits")
    return int(told), False


def answer_head(status: int, headers: dict[str, str]) -> bytes:
    """The first lines of an answer, with the empty one."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Server: orrery", f"Date: {formatdate(usegmt=True)}",
             *(f"{name}: {value}" for name, value in headers.items()), "\r\n"]
    return "\r\n".join(lines).encode("latin-1")
