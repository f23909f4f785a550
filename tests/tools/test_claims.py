"""`orrery reproduce` over all studies that ship: every claim holds or says why not; plots and the table of the docs."""

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

import table  # noqa: E402

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
        page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
        example = self.folder / "example.json"
        example.write_text(page.split("```json\n")[1].split("```")[0], encoding="utf-8")
        self.assertEqual(orrery("validate", str(example)).stderr, "")
        self.assertIn("1 of 1 claims hold", orrery("reproduce", str(example)).stdout)

    def test_table_of_the_docs(self):
        text = table.table(self.claims)
        for claim in self.claims:
            self.assertIn(table.cell(claim["claim"]), text)
        page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
        changed = table.rewrite(page, text)
        self.assertEqual(table.rewrite(changed, text), changed)
        self.assertEqual(changed[: changed.index(table.BEGIN)], page[: page.index(table.BEGIN)])


if __name__ == "__main__":
    unittest.main()
