"""`orrery reproduce` over all studies that ship: every claim holds or says why not; plots and the pages of the docs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORRERY = sys.argv.pop(1)
PACKAGE = ROOT / "tools" / "python" / "orrery_claims"
sys.path.insert(0, str(PACKAGE))

import pages  # noqa: E402

KEYS = ["study", "system", "claim", "source", "expected", "basis", "simulated", "holds", "note"]


def orrery(*arguments):
    return subprocess.run([ORRERY, *arguments], capture_output=True, text=True, check=False)


class Claims(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.done = orrery("reproduce", "--json", "--points", str(cls.folder / "points.csv"))
        cls.claims = json.loads(cls.done.stdout)["claims"] if cls.done.returncode == 0 else []
        (cls.folder / "claims.json").write_text(cls.done.stdout, encoding="utf-8")

    def test_runs(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(list(json.loads(self.done.stdout)), ["claims"])

    def test_shape(self):
        for claim in self.claims:
            with self.subTest(claim["claim"]):
                self.assertEqual(list(claim), KEYS)
                self.assertEqual(len(claim["expected"]), 2)
                self.assertIsInstance(claim["holds"], bool)
                for key in ("study", "system", "claim", "source", "note"):
                    self.assertIsInstance(claim[key], str)
                self.assertTrue(claim["claim"] and claim["source"])

    def test_holds_or_says_why_not(self):
        self.assertGreater(len(self.claims), 0)
        for claim in self.claims:
            with self.subTest(study=claim["study"], claim=claim["claim"]):
                low, high = claim["expected"]
                value = claim["simulated"]
                inside = value is not None and (low is None or value >= low) and (high is None or value <= high)
                self.assertEqual(claim["holds"], inside)
                self.assertTrue(inside or claim["note"])

    def test_every_shipped_study_is_there(self):
        files = sorted((ROOT / "experiments" / "studies").glob("*.json"))
        studies = {p.stem for p in files if json.loads(p.read_text(encoding="utf-8")).get("kind") == "claim"}
        self.assertEqual({claim["study"] for claim in self.claims}, studies)

    def test_a_figure_a_study(self):
        drawn = subprocess.run(["/usr/bin/python3", str(PACKAGE), str(self.folder / "points.csv"),
                                str(self.folder / "claims.json"), "--png", str(self.folder / "png")],
                               capture_output=True, text=True, check=False)
        self.assertEqual(drawn.returncode, 0, drawn.stderr)
        for study in {claim["study"] for claim in self.claims}:
            path = self.folder / "png" / f"{study}.png"
            self.assertEqual(path.read_bytes()[:4], b"\x89PNG", study)
            self.assertGreater(path.stat().st_size, 5000)

    def test_the_example_of_the_docs_is_valid(self):
        page = (ROOT / "docs/papers/index.md").read_text(encoding="utf-8")
        example = self.folder / "example.json"
        example.write_text(page.split("```json\n")[1].split("```")[0], encoding="utf-8")
        self.assertEqual(orrery("validate", str(example)).stderr, "")
        self.assertIn("1 of 1 claims hold", orrery("reproduce", str(example)).stdout)

    def test_pages_of_the_docs(self):
        """Every claim stands on its system's page, every page in the table; what is gone goes; twice is once."""
        docs = self.folder / "tree/docs"
        papers = docs / "papers"
        papers.mkdir(parents=True)
        (docs.parent / "experiments").symlink_to(ROOT / "experiments")
        index = (ROOT / "docs/papers/index.md").read_text(encoding="utf-8")
        (papers / "index.md").write_text(index, encoding="utf-8")
        (papers / "gone.md").write_text(pages.MADE + "\n# Gone\n", encoding="utf-8")
        (papers / "mine.md").write_text("# Mine\n", encoding="utf-8")
        pages.write(self.claims, papers, False)
        names = {path.name for path in papers.glob("*.md")}
        self.assertNotIn("gone.md", names)
        self.assertIn("mine.md", names)
        made = (papers / "index.md").read_text(encoding="utf-8")
        for claim in self.claims:
            name = pages.slug(claim["system"])
            self.assertIn(pages.cell(claim["claim"]), (papers / f"{name}.md").read_text(encoding="utf-8"))
            self.assertIn(f"({name}.md)", made)
        self.assertEqual(made[: made.index(pages.BEGIN)], index[: index.index(pages.BEGIN)])
        before = {name: (papers / name).read_bytes() for name in names}
        pages.write(self.claims, papers, False)
        self.assertEqual(before, {name: (papers / name).read_bytes() for name in names})

    def test_the_tree_has_these_pages(self):
        there = {path.name for path in (ROOT / "docs/papers").glob("*.md")} - {"index.md"}
        self.assertEqual(there, {f"{name}.md" for name in pages.by_page(self.claims)})
        figures = {path.stem for path in (ROOT / "docs/papers/figures").glob("*.png")}
        self.assertEqual(figures, {claim["study"] for claim in self.claims} | {f"{name}-forest" for name in pages.by_page(self.claims)})

    def test_ratios_of_a_forest_plot(self):
        import forest  # draws; so it needs matplotlib

        claim = {"claim": "c", "expected": [2, 8], "simulated": 6, "holds": True}
        self.assertEqual(forest.ratios(claim), (0.5, 2, 1.5))  # the middle of 2 and 8 is 4
        self.assertEqual(forest.ratios({**claim, "expected": [None, 3]}), (0, 1, 2))
        self.assertEqual(forest.ratios({**claim, "expected": [3, None]})[::2], (1, 2))
        for none in ({"expected": [0, 0]}, {"simulated": None}, {"simulated": -1}, {"expected": [-1, 2]}):
            self.assertIsNone(forest.ratios({**claim, **none}))


if __name__ == "__main__":
    unittest.main()
