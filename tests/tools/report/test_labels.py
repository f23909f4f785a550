"""Tests of what runs side by side are called."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "python"))

from orrery_report import compare_page  # noqa: E402
from orrery_report.run_folder import Run  # noqa: E402


def runs(*configs: dict) -> list[Run]:
    return [Run(Path(f"/x/r{i}"), {"config": config}, {"status": "ok"}, {}, None, None, None, ()) for i, config in enumerate(configs)]


class LabelsTest(unittest.TestCase):
    def labels(self, *configs: dict) -> list[str]:
        return compare_page.labels_of(runs(*configs))

    def test_one_setting_that_differs(self):
        self.assertEqual(self.labels({"a": {"rate_scale": 1, "b": 3}}, {"a": {"rate_scale": 2, "b": 3}}), ["rate scale 1", "rate scale 2"])

    def test_values_lose_what_says_nothing(self):
        self.assertEqual(self.labels({"model": {"config": "catalog:llama-2-7b"}}, {"model": {"config": "mine.json"}}),
                         ["config llama-2-7b", "config mine"])

    def test_a_setting_that_one_lacks(self):
        self.assertEqual(self.labels({"p": {"x": 1, "y": True}}, {"p": {"x": 1}}), ["y true", "y not set"])

    def test_ends_that_two_paths_share_are_told_apart(self):
        got = self.labels({"m": {"a": {"policy": "u"}, "b": {"policy": "v"}}}, {"m": {"a": {"policy": "w"}, "b": {"policy": "x"}}})
        self.assertEqual(got, ["a policy u, b policy v", "a policy w, b policy x"])

    def test_of_many_settings_those_that_tell_all_apart(self):
        base = [{"s": {f"k{i}": 0 for i in range(8)}} for _ in range(3)]
        for i in range(8):
            base[2]["s"][f"k{i}"] = 1  # eight settings of the last run alone
        for i, config in enumerate(base):
            config["s"]["rate"] = 10 * i  # one that tells all three apart
        self.assertEqual(self.labels(*base), ["rate 0", "rate 10", "rate 20"])

    def test_a_seed_tells_apart_what_nothing_else_does(self):
        self.assertEqual(self.labels({"run": {"seed": 1}, "a": 2}, {"run": {"seed": 2}, "a": 2}), ["seed 1", "seed 2"])

    def test_names_of_folders_where_settings_do_not(self):
        self.assertEqual(self.labels({"a": 1}, {"a": 1}), ["r0", "r1"])
        self.assertEqual(self.labels({"a": "x" * 80}, {"a": "y" * 80}), ["r0", "r1"])
        self.assertEqual(compare_page.names_of(runs({}, {})), ["r0", "r1"])

    def test_places_in_lists_are_no_names(self):
        self.assertEqual(self.labels({"d": [{"part": "a"}]}, {"d": [{"part": "b"}]}), ["part a", "part b"])


if __name__ == "__main__":
    unittest.main()
