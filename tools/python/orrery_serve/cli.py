"""The command line: `orrery_serve DIR [--port P] [--host H] …`; prints the address and serves until Ctrl-C."""

from __future__ import annotations

import argparse
import ipaddress
import json
import signal
import socket
import sys
import threading
from pathlib import Path

from .errors import Unusable
from .folder import Folder
from .guard import Guard
from .jobs import Runner
from .server import Server, listen_at
from .site import Site
from .starts import Starts
from .web import Desk


def main(arguments: list[str]) -> int:
    """Serves until it is told to end; 0, or 2 if it cannot do what was asked."""
    options = parse(arguments)
    try:
        return serve(options)
    except Unusable as error:
        print(f"orrery serve: {error}", file=sys.stderr)
        return 2


def parse(arguments: list[str]) -> argparse.Namespace:
    home = Path(__file__).resolve().parents[3]
    parser = argparse.ArgumentParser(prog="orrery serve", description="Show a folder's runs and studies in a browser.")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--host")
    parser.add_argument("--open-beyond-loopback", action="store_true", dest="beyond")
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--command", type=Path, default=Path("orrery"), help="the program that executes runs")
    parser.add_argument("--home", type=Path, default=home, help="the folder of Orrery with its own studies")
    return parser.parse_args(arguments)


def addresses(host: str | None, beyond: bool) -> list[str]:
    """Addresses to listen at. Unusable where one of them is reached from other machines and that is not allowed."""
    if host is None:
        return ["127.0.0.1", "::1"]
    try:
        known = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unusable(f"--host {host}: expected an address of this machine, found none") from None
    found = list(dict.fromkeys(str(entry[4][0]) for entry in known))
    if not beyond and not all(ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in found):
        raise Unusable(f"--host {host} can be reached from other machines; --open-beyond-loopback allows it")
    return found


def listen(wanted: list[str], port: int) -> list[socket.socket]:
    """A socket an address, all at one port; the second of the usual two may be missing. Unusable if none can be had."""
    found: list[socket.socket] = []
    for address in wanted:
        try:
            found.append(listen_at(address, found[0].getsockname()[1] if found else port))
        except OSError as error:
            if found:  # a machine without IPv6, or another's port there
                continue
            why = "is in use; --port names another, --port 0 takes any free one" if error.errno == 98 else \
                f"cannot be had ({error.strerror})"
            raise Unusable(f"port {port} of {address} {why}") from None
    return found


def serve(options: argparse.Namespace) -> int:
    if not options.folder.is_dir():
        raise Unusable(f"{options.folder}: expected a folder, found none")
    for name, value, low, high in (("port", options.port, 0, 65535), ("parallel", options.parallel, 1, 64)):
        if not low <= value <= high:
            raise Unusable(f"--{name}: expected {low} to {high}, got {value}")
    folder = Folder(options.folder)
    wanted = addresses(options.host, options.beyond)
    guard = Guard(options.port, tuple({options.host.lower(), *wanted}) if options.host else (), options.beyond)
    starts = Starts(options.command, folder, options.home / "experiments/studies")
    site = Site(folder, starts, None, guard)
    server = Server(listen(wanted, options.port), Desk(site, guard), guard)
    guard.port = server.port
    runner = None if options.read_only else Runner(options.command, folder, options.parallel)
    site.runner = runner
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    loop = threading.Thread(target=server.serve, name="connections", daemon=True)
    loop.start()
    site.index.look()
    tell(options, address(wanted[0], options.host, guard), folder, server.port)
    stop.wait()
    server.end()
    loop.join(5.0)
    if runner is not None:
        runner.close()
    return 0


def address(first: str, host: str | None, guard: Guard) -> str:
    """Where a browser finds it; with the token where other machines may come."""
    name = host or first
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{guard.port}/" + (f"?token={guard.token}" if guard.beyond else "")


def tell(options: argparse.Namespace, url: str, folder: Folder, port: int) -> None:
    """The address on stdout; what it is on stderr."""
    if options.json:
        print(json.dumps({"url": url, "port": port, "folder": str(folder.root)}), flush=True)
    else:
        print(url, flush=True)
    if not options.quiet:
        what = "runs may be started" if not options.read_only else "nothing can be started"
        print(f"serving {folder.root}; {what}; Ctrl-C ends", file=sys.stderr)
        if options.beyond:
            print("note: other machines reach this; whoever has the address may read the folder"
                  + ("" if options.read_only else " and start runs, which read any file that you may read"),
                  file=sys.stderr)
