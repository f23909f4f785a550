"""Which requests are answered at all: by whom they come, by which name, and from which page.

A page of another site may make a browser send requests here. It cannot give them our name as `Host` (a name that is
pointed at 127.0.0.1 is not ours), nor read an answer, nor know the token that every change needs.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import struct
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Mapping

from .errors import Refused

COOKIE = "orrery"


@dataclass
class Guard:
    """What one start of the server accepts. `beyond`: other machines may come, if they know the token."""

    port: int
    hosts: tuple[str, ...]
    beyond: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def host(self, given: str | None) -> None:
        """The Host header must name this server: an address of ours, or `localhost`; never some other name."""
        # As it stands: the name gets into headers of answers, and what Python takes for a space may be none there.
        name, colon, port = (given or "").lower().rpartition(":")
        if not colon or not port.isdigit():
            name, port = (given or "").lower(), "80"
        known = {"127.0.0.1", "localhost", "[::1]", *(f"[{h}]" if ":" in h else h for h in self.hosts)}
        if self.beyond:
            known.add(socket.gethostname().lower())
        good = name in known or (self.beyond and literal(name))  # an address is no name that somebody could point here
        if not good or port != str(self.port):
            raise Refused(403, "the Host header names another server")

    def peer(self, ours: tuple, theirs: tuple) -> None:
        """On loopback: other users of this machine are refused, where the kernel tells whose the connection is.

        Asked when a connection is accepted: before it takes a place, and before a byte of it is read.
        """
        if not self.beyond and owner(theirs, ours) not in (None, 0, os.getuid()):
            raise Refused(403, "the connection belongs to another user of this machine")

    def page(self, headers: Mapping[str, str]) -> None:
        """A request for data or for a change must come from a page of ours, or from no page. Names in small letters."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site not in (None, "same-origin", "none"):
            raise Refused(403, "the request comes from another site's page")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise Refused(403, "the request comes from another site's page")

    def change(self, headers: Mapping[str, str]) -> None:
        """A change needs the token, as a header that no form of another page can set."""
        self.page(headers)
        if not hmac.compare_digest(headers.get("x-orrery-token", "").encode("utf-8", "replace"), self.token.encode()):
            raise Refused(403, "the token of this server is missing or old; load the page again")

    def known(self, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
        """Whether a visitor from beyond has the token, in the address or in a cookie. On loopback everybody has."""
        if not self.beyond:
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            cookies = SimpleCookie()
        given = query.get("token") or (cookies[COOKIE].value if COOKIE in cookies else "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def literal(host: str) -> bool:
    """Whether a host is a plain address. One with a zone is none: a zone may be any text, which gets into headers."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return "%" not in host


def owner(local: tuple, remote: tuple) -> int | None:
    """The user of the socket on this machine that goes from `local` to `remote`; None where that is not known."""
    told = asked(local, remote)
    return told if told is not None else listed(local, remote)


# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
UID_AT = 80  # in a reply: a netlink header of 16 bytes, then inet_diag_msg, whose idiag_uid has 64 before it
ANY_COOKIE = b"\xff" * 8


def asked(local: tuple, remote: tuple) -> int | None:
    """The owner of one socket as the kernel's socket monitor tells it: at once, however many sockets there are.

    None where the machine has no such monitor, or no such socket.
    """
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    ends = [socket.inet_pton(family, end[0].partition("%")[0]).ljust(16, b"\0") for end in (local, remote)]
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    request += struct.pack("!HH", local[1], remote[1]) + b"".join(ends) + struct.pack("=I", 0) + ANY_COOKIE
    header = struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG) as monitor:
            monitor.settimeout(1.0)
            monitor.send(header + request)
            reply = monitor.recv(1 << 14)
    except (AttributeError, OSError):  # no Linux, or a sandbox
        return None
    if len(reply) < UID_AT + 4 or struct.unpack_from("=H", reply, 4)[0] != SOCK_DIAG_BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", reply, UID_AT)[0])


def listed(local: tuple, remote: tuple) -> int | None:
    """The same from the kernel's table of all connections, which takes longer the more there are."""
    tables = [("tcp6" if ":" in local[0] else "tcp", hexadecimal(local), hexadecimal(remote))]
    if ":" not in local[0]:
        # A socket of IPv6 reaches 127.0.0.1 as ::ffff:127.0.0.1, and stands in the other table.
        tables.append(("tcp6", *(hexadecimal((f"::ffff:{end[0]}", end[1])) for end in (local, remote))))
    for table, ours, theirs in tables:
        try:
            lines = Path(f"/proc/net/{table}").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if f"{ours} {theirs}" in line:
                return int(line.split()[7])
    return None


def hexadecimal(address: tuple) -> str:
    """An address as /proc/net/tcp writes it: groups of four bytes, each turned round."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, address[0].partition("%")[0])
    return "".join(packed[i:i + 4][::-1].hex() for i in range(0, len(packed), 4)).upper() + f":{address[1]:04X}"
