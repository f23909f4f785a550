"""Every snippet of docs/python.md runs, in the order of the page, in one namespace and an empty folder."""

import contextlib
import io
import os
import re
import shutil
import tempfile
import unittest

from support import ROOT

PAGE = ROOT / "docs/python.md"


def snippets() -> list[tuple[int, str]]:
    """Line and text of each block of Python."""
    text = PAGE.read_text()
    return [
        (text[: found.start()].count("\n") + 2, found[1]) for found in re.finditer(r"```python\n(.*?)```", text, re.S)
    ]


class DocsTest(unittest.TestCase):
    def test_snippets(self):
        self.assertGreater(len(snippets()), 5)
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "experiments/studies", folder + "/experiments/studies")
            shutil.copytree(ROOT / "traces/samples", folder + "/traces/samples")
            os.chdir(folder)
            try:
                names: dict = {"__name__": "docs"}
                for line, text in snippets():
                    with self.subTest(line=line), contextlib.redirect_stdout(io.StringIO()):
                        exec(compile("\n" * (line - 1) + text, str(PAGE), "exec"), names)  # noqa: S102 - our own page
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
