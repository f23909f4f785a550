"""Runs the Python blocks of one page in one namespace: a JSON line in for a block, a JSON line out for its result."""

import contextlib
import io
import json
import sys
import traceback


def main() -> None:
    names: dict = {"__name__": "docs"}
    requests, answers = sys.stdin, sys.stdout
    sys.stdin = io.StringIO()  # a block that reads finds nothing
    for request in map(json.loads, requests):
        printed = io.StringIO()
        error = ""
        with contextlib.redirect_stdout(printed):
            try:
                code = compile("\n" * (request["line"] - 1) + request["text"], request["page"], "exec")
                exec(code, names)  # noqa: S102 - our own pages
            except BaseException:  # noqa: BLE001 - told to the test
                error = traceback.format_exc()
        print(json.dumps({"printed": printed.getvalue(), "error": error}), file=answers, flush=True)


main()
