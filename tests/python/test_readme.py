"""The front page: short, its figures those of the pages that it names, its pictures and pages there."""

import re
import unittest

from support import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PARTS = {part.split("\n", 1)[0]: part for part in re.split(r"^## ", TEXT, flags=re.M)[1:]}


class ReadmeTest(unittest.TestCase):
    def test_is_a_page_of_a_hundred_lines(self):
        self.assertLessEqual(len(TEXT.splitlines()), 100)
        self.assertNotIn("../shared", TEXT)
        self.assertEqual(list(PARTS), ["Four questions", "Beside other simulators", "How accurate, how fast", "Install", "Where next"])

    def test_four_questions_are_a_command_and_an_answer_of_three_lines(self):
        asked = re.findall(r"```sh\n(.*?)```\n<!-- test: output -->\n```text\n(.*?)```", PARTS["Four questions"], re.S)
        self.assertEqual(len(asked), 4)
        for command, answer in asked:
            self.assertEqual(len(re.findall(r"build/release/orrery ", command)), 1, command)
            self.assertEqual(len([line for line in answer.splitlines() if line.strip() != "…"]), 3, answer)

    def test_its_figures_are_those_of_the_pages(self):
        """Each paragraph on accuracy and speed names its page, which has every figure with a unit of it."""
        checked = 0
        for paragraph in re.split(r"^- ", PARTS["How accurate, how fast"], flags=re.M)[1:]:
            pages = "".join((ROOT / path).read_text(encoding="utf-8") for path in re.findall(r"\]\((docs/[\w/-]+\.md)\)", paragraph))
            for figure in re.findall(r"\d+\.\d+", paragraph):
                self.assertIn(figure, pages, paragraph)
                checked += 1
        self.assertGreater(checked, 12)
        pages = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
        for figure in ("711,000", "290 to 350 requests/s", "16.0 s, 365 MB"):
            self.assertIn(figure, PARTS["Beside other simulators"])
            self.assertIn(figure, pages)

    def test_other_simulators_have_sources(self):
        rows = [line for line in PARTS["Beside other simulators"].splitlines() if line.startswith("| [")]
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertRegex(row, r"¹|\[\d\]")
        for number in sorted(set(re.findall(r"\[(\d)\]", "".join(rows)))):
            self.assertRegex(PARTS["Beside other simulators"], rf"\[{number}\] \w+")

    def test_the_inventory_names_each_thing_once(self):
        page = (ROOT / "docs/learn/features.md").read_text(encoding="utf-8")
        heads = re.findall(r"^\| (\w[^|]*) \|", page, re.M)
        self.assertGreater(len(heads), 15)
        self.assertEqual(sorted(heads), sorted(set(heads)))


if __name__ == "__main__":
    unittest.main()
