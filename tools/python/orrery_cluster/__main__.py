"""Hands the runs of a study to the workers of a Dask cluster: `orrery sweep STUDY --cluster ADDRESS` starts it.

Reads the head's lines on stdin (the protocol of `orrery evaluate-points`, docs/studies.md), answers on stdout in the order
in which runs end. A worker keeps a helper, which is that very command, and gives it a run at a time. Workers may come and
go: what a lost one was at is done again by another. Nothing is stored here.

All in one file, so that it goes to the workers by value: they need Dask and the command, not this package.
"""

import argparse
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading

WAIT_S = 30  # between notes that nobody works


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
            text=True,
        )
        self.build = json.loads(self.ask(header)).get("build")

    def ask(self, line):
        try:
            self.process.stdin.write(line.rstrip("\n") + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise HelperEnded(f"exit code {self.process.wait()}")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def failed(line, reason):
    """The answer to a run that did not come back."""
    return json.dumps({"id": json.loads(line)["id"], "key": None, "status": "failed", "reason": reason, "figures": {}})


def evaluate(line, header, command, build, folder):
    """On a worker: the answer to a line, or {"refused": why}."""
    import distributed

    key = (command, header, folder)
    idle = distributed.get_worker().__dict__.setdefault("orrery_helpers", [])
    for attempt in (1, 2):  # what ends a helper twice is the run's fault
        helper = None
        try:
            while idle and helper is None:
                helper = idle.pop()
                if helper.key != key:
                    helper.close()
                    helper = None
            helper = helper or Helper(key)
            if build and helper.build != build:
                return json.dumps({"refused": f"the worker's orrery is another build ({helper.build}, not {build})"})
            answer = helper.ask(line)
        except HelperEnded as error:
            if attempt == 2:
                return failed(line, f"the run ended the process that did it ({error})")
        except OSError as error:
            return json.dumps({"refused": f"the worker has no orrery: {error} (ORRERY_COMMAND names it there)"})
        else:
            idle.append(helper)
            return answer


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def leave(code):
    """At once, whatever threads are at."""
    sys.stdout.flush()
    os._exit(code)


class Head:
    """The study's side: lines in, runs out to the cluster, answers back."""

    def __init__(self, client, header, command, build):
        self.client = client
        self.of_point = (header, command, build, os.getcwd())
        self.ended = queue.SimpleQueue()
        self.lines = {}

    def read(self):
        """Hands on every line; the end of the input ends it all."""
        for line in sys.stdin:
            future = self.client.submit(evaluate, line, *self.of_point, pure=False)
            self.lines[future.key] = line
            future.add_done_callback(self.ended.put)
        self.ended.put(None)

    def answer(self, future):
        """The line that goes back; leaves where nothing sensible can."""
        import distributed

        line = self.lines.pop(future.key)
        if future.status == "error":
            error = future.exception()
            if isinstance(error, distributed.scheduler.KilledWorker):
                return failed(line, "the run took down one worker after the other")
            say(f"a worker failed: {error!r}")
            leave(1)
        if future.status != "finished":
            say("the scheduler is gone")
            leave(1)
        answer = json.loads(future.result())
        if "refused" in answer:
            say(answer["refused"])
            leave(2)
        return json.dumps(answer)

    def serve(self):
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            try:
                future = self.ended.get(timeout=WAIT_S)
            except queue.Empty:
                if self.lines and not self.client.scheduler_info()["workers"]:
                    say("no worker yet; waiting")
                continue
            if future is None:
                leave(0)
            print(self.answer(future), flush=True)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the head decides
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--command", required=True)
    parser.add_argument("--build", default="")
    options = parser.parse_args()
    header = sys.stdin.readline()
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
    Head(client, header, options.command, options.build).serve()


if __name__ == "__main__":
    leave(main() or 0)
