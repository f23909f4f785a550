"""Connections: one thread talks to all clients, some others work out the answers.

A client costs no thread. Those that say nothing, a request byte by byte, or never read their answer are entries in a
table, some tens of KiB each at most. A thread for each connection, with a limit on threads, would let a hundred such
clients keep everybody out; one without a limit would let them take the machine's memory. So:

- the loop never waits for a client, and no answer is begun before its request is whole;
- a request has to be whole `REQUEST_S` after its first byte, however its bytes come;
- when the table is full, the connection that has waited longest for its client makes room for a new one. It is never
  one whose request is being answered;
- what is held for clients (requests and answers) has a bound too, and the same connections give way to it;
- files are sent in pieces that the workers read, so that a slow disk holds up its own reader alone.
"""

from __future__ import annotations

import errno
import os
import queue
import resource
import selectors
import socket
import sys
import threading
import time
from collections import deque
from typing import Callable

from .errors import Refused
from .guard import Guard
from .web import Answer, Desk, Request, Talk, written

CONNECTIONS = 256  # a browser keeps six
WORKERS = 24  # reports and calls of the command have closer limits of their own
BACKLOG = 1024  # connections that the kernel keeps until they are accepted
AT_ONCE = 64  # connections accepted before others are looked at again
IDLE_S = 30.0  # without a byte, between requests
REQUEST_S = 20.0  # from the first byte of a request to its last
STALL_S = 30.0  # an answer of which the client takes nothing
LINGER_S = 2.0  # after the last answer, for the client to read it
TICK_S = 0.25  # between two looks at these times
PIECE = 1 << 16  # bytes that are read or sent at once
SEND_BUFFER = 1 << 17
HELD = 256 << 20  # bytes held for all clients together


class Line:
    """One connection: its socket, what was said, what is still to be sent."""

    def __init__(self, connection: socket.socket, desk: Desk) -> None:
        self.socket, self.talk = connection, Talk(desk)
        self.out: deque[memoryview] = deque()
        self.file, self.left = -1, 0  # the file that is sent, and how many bytes of it
        self.busy = False  # a worker is at it
        self.leaving = False  # all is sent; what the client still says is thrown away
        self.since = time.monotonic()  # of its wait for the client; while it sends, of the last byte taken
        self.first = 0.0  # when the request's first byte came; 0 before
        self.mask = 0  # what the loop waits for on its socket

    def sending(self) -> bool:
        return bool(self.out) or self.left > 0

    def held(self) -> int:
        """Bytes of memory that it takes."""
        return len(self.talk.heard) + sum(map(len, self.out))

    def rank(self) -> tuple[bool, float]:
        """The least gives way first: an unfinished request before an answer that is being read, old before new."""
        return self.sending(), self.since

    def late(self, now: float) -> bool:
        """Whether the client has had its time."""
        if self.busy:
            return False
        if self.sending():
            return now - self.since > STALL_S
        if self.leaving:
            return now - self.since > LINGER_S
        return now - self.first > REQUEST_S if self.first else now - self.since > IDLE_S


def listen_at(address: str, port: int) -> socket.socket:
    """A listening socket. OSError where there is none to be had."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


class Server:
    """All listening addresses of one start."""

    def __init__(self, listening: list[socket.socket], desk: Desk, guard: Guard) -> None:
        self.listening, self.desk, self.guard = listening, desk, guard
        self.lines: set[Line] = set()
        # Files, stores and processes need descriptors too.
        self.most = min(CONNECTIONS, max(8, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3))
        self.jobs: queue.SimpleQueue[tuple[Line, Callable[[], object]]] = queue.SimpleQueue()
        self.results: deque[tuple[Line, object]] = deque()
        self.ending = False
        self.selector = selectors.DefaultSelector()
        self.bell, self.ring = socket.socketpair()
        for one in (*listening, self.bell, self.ring):
            one.setblocking(False)
        for one in listening:
            self.selector.register(one, selectors.EVENT_READ)
        self.selector.register(self.bell, selectors.EVENT_READ)
        for number in range(WORKERS):
            threading.Thread(target=self._work, name=f"answer-{number}", daemon=True).start()

    @property
    def port(self) -> int:
        return self.listening[0].getsockname()[1]

    def serve(self) -> None:
        """Answers until `end` is called."""
        looked = 0.0
        while not self.ending:
            for key, _ in self.selector.select(TICK_S if self.lines else None):
                try:
                    if key.fileobj is self.bell:
                        self._take_results()
                    elif isinstance(key.data, Line):
                        self._attend(key.data)
                    else:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                except Exception as error:  # nobody would be answered any more
                    print(f"orrery serve: internal fault: {type(error).__name__}: {error}", file=sys.stderr)
            now = time.monotonic()
            if now - looked > TICK_S:
                looked = now
                for line in [line for line in self.lines if line.late(now)]:
                    self._guarded(line, self._give_up)
        for line in list(self.lines):
            self._drop(line)
        for one in self.listening:
            one.close()

    def end(self) -> None:
        """Has `serve` return; from any thread."""
        self.ending = True
        self._wake()

    # -- workers ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            line, make = self.jobs.get()
            try:
                made = make()
            except Exception as error:  # a file that cannot be read to its end; the next job wants this worker
                made = error
            self.results.append((line, made))
            self._wake()

    def _wake(self) -> None:
        try:
            self.ring.send(b"!")
        except BlockingIOError:
            pass  # enough rings wait to be heard
        except OSError:
            pass  # the server has ended

    def _take_results(self) -> None:
        try:
            self.bell.recv(1 << 12)
        except BlockingIOError:
            pass
        while self.results:
            line, made = self.results.popleft()
            line.busy = False
            if line not in self.lines:
                continue
            if isinstance(made, Answer):
                self._guarded(line, lambda of, answer=made: self._begin(of, answer))
            elif isinstance(made, bytes) and made:
                line.left -= len(made)
                line.out.append(memoryview(made))
                self._guarded(line, self._send)
            else:  # the file has shrunk since its length was told, or cannot be read
                self._drop(line)

    def _hand_over(self, line: Line, make: Callable[[], object]) -> None:
        line.busy = True
        self._await(line, 0)
        self.jobs.put((line, make))

    # -- connections --------------------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, theirs = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    if not self._make_room(len(self.lines)):
                        time.sleep(0.01)  # the loop would only turn round
                return  # or a client that has gone already
            connection.setblocking(False)
            try:
                self.guard.peer(connection.getsockname(), theirs)
                if not self._make_room(self.most):
                    raise Refused(503, f"{self.most} requests are being answered; try again")
            except Refused as refused:
                self._turn_away(connection, refused)
                continue
            except OSError:
                connection.close()
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Left to itself, the kernel takes in megabytes of an answer that nobody reads.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            line = Line(connection, self.desk)
            self.lines.add(line)
            self._await(line, selectors.EVENT_READ)
            # At once: an honest client's request came with it, and is whole before others can push it out.
            self._attend(line)

    def _turn_away(self, connection: socket.socket, refused: Refused) -> None:
        """Says why, if the client is there to hear it, without waiting or reading."""
        answer = self.desk.refusal("", refused)
        try:
            connection.send(written(answer, True) + answer.body)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        connection.close()

    def _make_room(self, most: int) -> bool:
        """Has fewer than `most` connections, if need be by closing the one whose client keeps it waiting longest."""
        while len(self.lines) >= most:
            waiting = [line for line in self.lines if not line.busy]
            if not waiting:
                return False
            self._drop(min(waiting, key=Line.rank))
        return True

    def _relieve(self, grown: Line) -> None:
        """Keeps what is held for all clients within its bound, now that one of them has more."""
        if grown.held() <= PIECE:  # all of the table at that are far below it, and counting them takes time
            return
        while sum(line.held() for line in self.lines) > HELD:
            holding = [line for line in self.lines if not line.busy and line.held()]
            if len(holding) < 2:  # the only one may have as much as it asked for
                return
            self._drop(min(holding, key=Line.rank))

    def _guarded(self, line: Line, act: Callable[[Line], None]) -> None:
        """Does something for a line that is still there. Whatever goes wrong ends that line alone."""
        if line not in self.lines:
            return
        try:
            act(line)
        except OSError:
            self._drop(line)
        except Exception as error:
            print(f"orrery serve: internal fault: {type(error).__name__}: {error}", file=sys.stderr)
            self._drop(line)

    def _attend(self, line: Line) -> None:
        if not line.busy:
            self._guarded(line, self._send if line.sending() else self._hear)

    def _await(self, line: Line, mask: int) -> None:
        """What the loop waits for on a line: to read, to write, or nothing."""
        if mask == line.mask:
            return
        if line.mask == 0:
            self.selector.register(line.socket, mask, line)
        elif mask == 0:
            self.selector.unregister(line.socket)
        else:
            self.selector.modify(line.socket, mask, line)
        line.mask = mask

    def _drop(self, line: Line) -> None:
        if line not in self.lines:
            return
        self.lines.discard(line)
        self._await(line, 0)
        line.socket.close()
        if line.file >= 0:
            os.close(line.file)
            line.file, line.left = -1, 0
        line.out.clear()

    def _give_up(self, line: Line) -> None:
        """Ends a line whose client has had its time; one that had begun a request is told."""
        if line.first and not line.sending() and not line.leaving:
            self._begin(line, line.talk.late())
        else:
            self._drop(line)

    # -- one request --------------------------------------------------------------------------------------------------

    def _hear(self, line: Line) -> None:
        try:
            data = line.socket.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        if line.leaving:
            if not data:
                self._drop(line)
            return
        if not data:
            # What is whole was answered already. A client that ends in the middle of a request gets nothing.
            self._drop(line)
            return
        line.talk.take(data)
        self._go_on(line)
        self._relieve(line)

    def _go_on(self, line: Line) -> None:
        """Begins what there is to be answered."""
        step = line.talk.next()
        if isinstance(step, Request):
            self._hand_over(line, lambda: self.desk.answer(step))
        elif step is not None:
            self._begin(line, step)
        else:
            if not line.first and line.talk.begun:
                line.first = time.monotonic()
            self._await(line, selectors.EVENT_READ)

    def _begin(self, line: Line, answer: Answer) -> None:
        """Begins to send an answer."""
        line.out.append(memoryview(written(answer, line.talk.close)))
        if answer.file is not None:
            line.file, line.left = answer.file, answer.length
        elif answer.body:
            line.out.append(memoryview(answer.body))
        line.since = time.monotonic()
        self._send(line)
        self._relieve(line)

    def _send(self, line: Line) -> None:
        """Sends what the client takes, asks for the next piece of a file, or ends the answer."""
        if line.out:
            try:
                sent = line.socket.send(line.out[0][:PIECE * 4])
            except (BlockingIOError, InterruptedError):
                sent = 0
            if sent:
                line.since = time.monotonic()
                line.out[0] = line.out[0][sent:]
                if not line.out[0]:
                    line.out.popleft()
        if line.out:
            self._await(line, selectors.EVENT_WRITE)
        elif line.left > 0:
            self._hand_over(line, lambda: os.read(line.file, min(line.left, PIECE)))
        else:
            self._finish(line)

    def _finish(self, line: Line) -> None:
        """After an answer: the next request, or the end."""
        if line.file >= 0:
            os.close(line.file)
            line.file = -1
        line.since, line.first = time.monotonic(), 0.0
        line.talk.done()
        if line.talk.close:
            # Closed at once, with bytes of the client unread, the connection would be reset and the answer lost.
            line.leaving = True
            line.socket.shutdown(socket.SHUT_WR)
            self._await(line, selectors.EVENT_READ)
        else:
            self._go_on(line)
