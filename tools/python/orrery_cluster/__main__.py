"""Hands the runs of a study to the workers of a Dask cluster: `orrery sweep STUDY --cluster ADDRESS` starts it.

Reads the head's lines on stdin (the protocol of `orrery evaluate-points`, docs/explain/studies.md), answers on stdout in the order
in which runs end. Runs go out in blocks of as many as take BLOCK_S together, AHEAD blocks a worker at a time. A worker keeps
a helper, which is that very command, and gives it a block at a time. Workers may come and go: what a lost one was at is done
again by another. Nothing is stored here.

All in one file, so that it goes to the workers by value: they need Dask and the command, not this package.
"""

import argparse
import collections
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time

WAIT_S = 30  # between notes that nobody works
BLOCK_S = 0.1  # of runs that go out together
MOST = 1000  # runs of a block
AHEAD = 3  # blocks of a worker: one that it does, and what hides the way there and back


class HelperEnded(Exception):
    """The helper ended in the middle of a run."""


class Helper:
    """`orrery evaluate-points`, greeted."""

    def __init__(self, key):
        command, header, folder = self.key = key
        self.process = subprocess.Popen(
            [os.environ.get("ORRERY_COMMAND", command), "evaluate-points"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder if os.path.isdir(folder) else None,
        )
        answers = bytearray()
        self.ask(header, 1, answers)
        self.build = json.loads(answers).get("build")

    def ask(self, lines, count, answers):
        """Adds the answers to `count` lines as they come; HelperEnded where one does not come."""

        def write():
            try:
                self.process.stdin.write(lines)
                self.process.stdin.flush()
            except BrokenPipeError:
                pass  # then an answer does not come either

        writer = threading.Thread(target=write)  # both pipes hold little
        writer.start()
        try:
            while count > 0:
                data = self.process.stdout.read1(1 << 16)
                if not data:
                    raise HelperEnded(f"exit code {self.process.wait()}")
                answers += data
                count -= data.count(b"\n")
        finally:
            writer.join()

    def close(self):
        """Of one that ended by itself too."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()


def failed(line, reason):
    """The answer to a run that did not come back."""
    answer = {"id": json.loads(line)["id"], "key": None, "status": "failed", "reason": reason, "figures": {}}
    return json.dumps(answer).encode() + b"\n"


def evaluate(lines, count, header, command, build, folder):
    """On a worker: the answers to lines and the time they took, or {"refused": why}."""
    import distributed

    began = time.perf_counter()
    key = (command, header, folder)
    idle = distributed.get_worker().__dict__.setdefault("orrery_helpers", [])
    answers, done, ended_at = bytearray(), 0, -1
    while done < count:
        helper = None
        try:
            while idle and helper is None:
                helper = idle.pop()
                if helper.key != key:
                    helper.close()
                    helper = None
            helper = helper or Helper(key)
            if build and helper.build != build:
                return {"refused": f"the worker's orrery is another build ({helper.build}, not {build})"}
            helper.ask(b"".join(lines.splitlines(True)[done:]) if done else lines, count - done, answers)
            done = count
        except HelperEnded as error:
            if helper is not None:
                helper.close()
            del answers[answers.rfind(b"\n") + 1:]  # what is whole counts
            done = answers.count(b"\n")
            if ended_at == done:  # what ends a helper twice is the run's fault
                answers += failed(lines.splitlines()[done], f"the run ended the process that did it ({error})")
                done += 1
            ended_at = done
        except OSError as error:
            return {"refused": f"the worker has no orrery: {error} (ORRERY_COMMAND names it there)"}
        else:
            idle.append(helper)
    return {"answers": bytes(answers), "took_s": time.perf_counter() - began}


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def leave(code):
    """At once, whatever threads are at."""
    sys.stdout.flush()
    os._exit(code)


class Head:
    """The study's side: lines in, blocks of runs out to the cluster, answers back."""

    def __init__(self, client, header, command, build):
        self.client = client
        self.of_point = (header, command, build, os.getcwd())
        self.events = queue.SimpleQueue()  # lists of lines that came, futures that ended; None: no more lines
        self.waiting, self.next = [], 0  # lines, and the first of them that is not out
        self.out = {}  # lines of a block and their count by the key of its future
        self.run_s = None  # of late, a run

    def read(self, source):
        """Hands on lines; the end of the input ends it all."""
        rest = b""
        while data := os.read(source, 1 << 20):
            *lines, rest = (rest + data).split(b"\n")
            if lines:
                self.events.put(lines)
        self.events.put(None)

    def workers(self):
        return max(1, len(self.client.scheduler_info()["workers"]))

    def block(self, workers):
        """How many runs go out together: BLOCK_S of them; where fewer wait, less, so that every worker gets some, down to a
        fifth."""
        fit = 1 if self.run_s is None else min(MOST, int(BLOCK_S / max(self.run_s, 1e-9)))
        share = -(-(len(self.waiting) - self.next) // (workers * AHEAD))
        return max(1, min(fit, max(share, fit // 5)))

    def submit(self, lines):
        block = b"\n".join(lines) + b"\n"
        future = self.client.submit(evaluate, block, len(lines), *self.of_point, pure=False)
        self.out[future.key] = (block, len(lines))
        future.add_done_callback(self.events.put)

    def send(self):
        if self.next == len(self.waiting):
            return
        workers = self.workers()
        while self.next < len(self.waiting) and len(self.out) < workers * AHEAD:
            count = self.block(workers)
            self.submit(self.waiting[self.next:self.next + count])
            self.next += count
        if self.next >= len(self.waiting):
            self.waiting, self.next = [], 0

    def answers(self, future):
        """The lines that go back; leaves where nothing sensible can."""
        import distributed

        block, count = self.out.pop(future.key)
        if future.status == "error":
            error = future.exception()
            if isinstance(error, distributed.scheduler.KilledWorker):
                if count == 1:
                    return failed(block, "the run took down one worker after the other")
                for line in block.splitlines():  # one of them did: each by itself
                    self.submit([line])
                return b""
            say(f"a worker failed: {error!r}")
            leave(1)
        if future.status != "finished":
            say("the scheduler is gone")
            leave(1)
        result = future.result()
        if "refused" in result:
            say(result["refused"])
            leave(2)
        self.run_s = result["took_s"] / count
        return result["answers"]

    def serve(self, source):
        threading.Thread(target=self.read, args=(source,), daemon=True).start()
        while True:
            try:
                event = self.events.get(timeout=WAIT_S)
            except queue.Empty:
                if self.out and not self.client.scheduler_info()["workers"]:
                    say("no worker yet; waiting")
                continue
            if event is None:
                leave(0)
            if isinstance(event, list):
                self.waiting.extend(event)
            elif answers := self.answers(event):
                sys.stdout.buffer.write(answers)
                sys.stdout.buffer.flush()
            self.send()


def first_line(source):
    """The header, byte by byte: what follows it is for Head.read."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(source, 1)):
        line += byte
    return line


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the head decides
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--command", required=True)
    parser.add_argument("--build", default="")
    options = parser.parse_args()
    header = first_line(sys.stdin.fileno())
    try:
        import distributed
    except ImportError:
        say("Dask is not installed (tools/setup cluster)")
        return 2
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(options.address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        say(f"no scheduler answers at '{options.address}': {error}")
        return 2
    workers = client.scheduler_info()["workers"]
    print(json.dumps({"protocol": 1, "workers": len(workers)}), flush=True)
    if not workers:
        say("no worker yet; waiting")
    Head(client, header, options.command, options.build).serve(sys.stdin.fileno())


if __name__ == "__main__":
    leave(main() or 0)
