"""The harness finds what is wrong: pages that are right, and each with one fault."""

import pathlib
import tempfile
import unittest

import blocks
import commands
import output
from session import Session

ROOT = pathlib.Path(__file__).resolve().parents[2]


def faults(text: str, slow: bool = False) -> list[str]:
    """Of a page with this text."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("experiments", "traces", "tests", "policies", "hw", "models"):
            (root / name).symlink_to(ROOT / name)
        (root / "page.md").write_text(text, encoding="utf-8")
        page = blocks.parse(root, "page.md")
        session = Session(root, page, slow, update=False)
        return session.run().faults


class Blocks(unittest.TestCase):
    def test_parse(self):
        page = blocks.Page("", [], "")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.md").write_text(
                "# A\n\n<!-- test: slow -->\n```sh\norrery list\n```\n\n- item\n\n    orrery run `x`\n\nText `orrery list`.\n")
            page = blocks.parse(pathlib.Path(folder), "a.md")
        self.assertEqual([(b.line, b.last, b.language) for b in page.blocks], [(5, 5, "sh"), (10, 10, "sh")])
        self.assertEqual(page.blocks[0].directives, ["slow"])
        self.assertEqual(blocks.inline_code(page), [(12, "orrery list")])

    def test_anchors(self):
        self.assertEqual(blocks.anchors("# A b\n## `c` (d)\n"), {"a-b", "c-d"})


class Outputs(unittest.TestCase):
    def test_matches(self):
        self.assertTrue(output.matches("a … c\n…\nz\n", "a b c\nx\ny\nz\n"))
        self.assertTrue(output.matches("runs/x-12345678", "runs/x-87654321\n"))
        self.assertFalse(output.matches("a … c\nz\n", "a b c\nx\nz\n"))
        self.assertFalse(output.matches("1.23 s", "1.24 s"))


class Inline(unittest.TestCase):
    def test_flags(self):
        self.assertEqual(commands.faults("orrery run my.json --set a=b --out x"), [])
        self.assertEqual(commands.faults("orrery trace inspect|convert x"), [])
        self.assertEqual(commands.faults("orrery run --outt x"), ["'orrery run' has no --outt"])
        self.assertEqual(commands.faults("orrery runn x"), ["there is no command 'orrery runn'"])


class Faults(unittest.TestCase):
    def check(self, text: str, *parts: str) -> None:
        found = faults(text)
        self.assertEqual(len(found), len(parts), found)
        for fault, part in zip(found, parts):
            self.assertIn(part, fault)

    def test_right(self):
        self.check("```sh\necho a   # b\n```\n<!-- test: output -->\n```\na\n```\n")
        self.check("```console\n$ echo b\nb\n```\n")
        self.check('```json\n"slo": {"ttft": "2 s"}\n```\n')

    def test_wrong(self):
        self.check("```sh\ntrue\nfalse\n```\n", "page.md:3: 'false' ended with 1, not 0")
        self.check("```sh\necho a\n```\n<!-- test: output -->\n```\nb\n```\n", "page.md:6: the command before prints something else")
        self.check("```console\n$ echo b\nc\n```\n", "page.md:2: prints something else")
        self.check('```json\n"slo": {"tttft": "2 s"}\n```\n', "unknown key 'tttft' (did you mean 'ttft'?)")
        self.check("```json\n{]\n```\n", "page.md:2: no JSON")
        self.check("```\nwhat\n```\n", "needs a comment")
        self.check("<!-- test: skip -->\n```\nwhat\n```\n", "with a reason")
        self.check("<!-- test: in policies/batching/static.cpp -->\n```cpp\nstruct StaticParams {\nint nobody;\n```\n",
                   "page.md:4: not in policies/batching/static.cpp: int nobody;")

    def test_slow_is_left(self):
        page = "<!-- test: slow -->\n```sh\nfalse\n```\n<!-- test: output -->\n```\nx\n```\n"
        self.assertEqual(faults(page), [])
        self.assertEqual(len(faults(page, slow=True)), 2)


if __name__ == "__main__":
    unittest.main()
