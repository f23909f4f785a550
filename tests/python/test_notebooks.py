"""Every notebook runs, draws, warns of nothing, and its .ipynb is what its text says.

A notebook holds its own conclusions to the numbers that it computed: an assertion in it fails here.
"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

from support import ROOT

sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_notebooks import FOLDER, __main__, convert, names, running  # noqa: E402 - the line above finds it

LONGEST_CELL = 45  # lines; notebooks are read


class FormTest(unittest.TestCase):
    def test_texts_make_the_notebooks(self):
        self.assertEqual(names(), sorted(path.stem for path in FOLDER.glob("*.ipynb")))
        for name in names():
            text = (FOLDER / f"{name}.py").read_text()
            notebook = convert.to_notebook(text)
            with self.subTest(name):
                self.assertEqual(convert.to_text(notebook), text, "blank lines or spaces differ: tools/notebook --save")
                self.assertEqual((FOLDER / f"{name}.ipynb").read_text(), convert.to_json(notebook),
                                 "not made from its text: tools/notebook --build")

    def test_what_a_notebook_has(self):
        for name in names():
            cells = convert.to_notebook((FOLDER / f"{name}.py").read_text())["cells"]
            text = ["".join(cell["source"]) for cell in cells]
            code = [source for cell, source in zip(cells, text) if cell["cell_type"] == "code"]
            with self.subTest(name):
                self.assertIn("*The question: ", text[0])
                self.assertIn("## What to try next", text[-1])
                self.assertTrue(any(line.startswith("assert ") for line in "\n".join(code).splitlines()))
                self.assertLess(max(len(source.splitlines()) for source in code), LONGEST_CELL)
                self.assertLessEqual(max(map(len, "\n".join(text).splitlines())), 120)

    def test_outputs_and_identifiers_are_dropped(self):
        text = "# %% [markdown]\n# # Title\n#\n# words\n\n# %%\nprint(1)\n\n\ndef f():\n    pass\n"
        notebook = convert.to_notebook(text)
        told = json.loads(json.dumps(notebook))
        for place, cell in enumerate(told["cells"]):
            cell["id"] = f"x{place}"
            cell["source"] = "".join(cell["source"])  # as some editors write it
        said = {"output_type": "stream", "name": "stdout", "text": "1\n"}
        told["cells"][1] |= {"outputs": [said], "execution_count": 7}
        told["cells"].append({"cell_type": "code", "source": [], "metadata": {}, "outputs": []})
        self.assertEqual(convert.to_notebook(convert.to_text(told)), notebook)

    def test_faulty_texts(self):
        for text in ("x = 1\n", "# %% [raw]\n", "# %% [markdown]\nnot a comment\n"):
            with self.subTest(text), self.assertRaises(ValueError):
                convert.to_notebook(text)


class CommandTest(unittest.TestCase):
    """`tools/notebook`, less what it installs and builds."""

    def call(self, *arguments) -> int:
        said = io.StringIO()
        with (unittest.mock.patch.object(sys, "argv", ["notebook", *map(str, arguments)]),
              contextlib.redirect_stdout(said), contextlib.redirect_stderr(said)):
            return __main__.main()

    def test_runs_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            mine, out, page = (pathlib.Path(folder) / name for name in ("mine.ipynb", "out.ipynb", "page.html"))
            text = "# %%\nimport orrery\nprint(len(orrery.list('model')) > 3)\n"
            mine.write_text(convert.to_json(convert.to_notebook(text)))
            self.assertEqual(self.call("--run", mine, "--out", out), 0)
            self.assertEqual(json.loads(out.read_text())["cells"][0]["outputs"][0]["text"], ["True\n"])
            mine.write_text(convert.to_json(convert.to_notebook("# %%\n1 / 0\n")))
            self.assertEqual(self.call("--run", mine, "--out", page), 1)
            self.assertFalse(page.exists())

    def test_unknown_notebook(self):
        with self.assertRaisesRegex(SystemExit, "no notebook '8_more'.*1_first_run"):
            self.call("--run", "8_more")


class RunTest(unittest.TestCase):
    """A test a notebook, made below."""

    def run_notebook(self, name: str) -> None:
        notebook = running.execute(convert.to_notebook((FOLDER / f"{name}.py").read_text()))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([cell["execution_count"] for cell in code], list(range(1, len(code) + 1)))
        self.assertEqual(running.complaints(notebook), [])
        drawn = running.images(notebook)
        self.assertGreaterEqual(len(drawn), 1)
        self.assertTrue(all(image.startswith(b"\x89PNG") and len(image) > 10_000 for image in drawn))
        said = [output["text"] for _, output in running.outputs(notebook) if output["output_type"] == "stream"]
        self.assertTrue(said, "it concludes nothing")
        self.assertNotRegex("".join(said), r"\b(nan|inf)\b")


for one in names():
    setattr(RunTest, f"test_{one}", lambda self, name=one: self.run_notebook(name))


if __name__ == "__main__":
    unittest.main()
