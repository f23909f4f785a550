"""The gallery of docs/explain/plots.md: every image is there, small, and known to its script; every figure is shown."""

import importlib.machinery
import importlib.util
import inspect
import re
import struct
import unittest

from orrery import plot
from support import ROOT

PAGE = ROOT / "docs/explain/plots.md"
MOST_BYTES = 80_000


def script():
    loader = importlib.machinery.SourceFileLoader("docs_images", str(ROOT / "tools/docs_images"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_images", loader))
    loader.exec_module(module)
    return module


class Gallery(unittest.TestCase):
    def test_every_image_of_the_docs_exists_and_the_script_makes_it(self):
        known = script().IMAGES
        shown = set()
        for page in [*sorted((ROOT / "docs").glob("**/*.md")), ROOT / "README.md"]:
            for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
                with self.subTest(page=page.name, path=path):
                    self.assertTrue((page.parent / path).is_file())
                    if (page.parent / path).resolve().parent == ROOT / "docs/plots":
                        shown.add((page.parent / path).stem)
        self.assertEqual(shown, set(known))
        self.assertEqual({path.stem for path in (ROOT / "docs/plots").iterdir()}, set(known))

    def test_images_are_small_and_can_be_read(self):
        for path in (ROOT / "docs/plots").iterdir():
            data = path.read_bytes()
            self.assertEqual(data[:4], b"\x89PNG", path)
            self.assertLess(len(data), MOST_BYTES, path)
            self.assertGreater(struct.unpack(">II", data[16:24])[0], 400, path)

    def test_every_figure_is_in_the_gallery_with_its_parameters(self):
        page = PAGE.read_text(encoding="utf-8")
        for name, function in inspect.getmembers(plot, inspect.isfunction):
            if name.startswith("_"):
                continue
            with self.subTest(name):
                self.assertTrue(function.__doc__)
                self.assertIn(f"`{name}`", page)
                self.assertTrue((ROOT / f"docs/plots/{name}.png").is_file())
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.kind is parameter.KEYWORD_ONLY:
                        self.assertRegex(page, rf"plot\.{name}\([^)]*{parameter.name}=")


if __name__ == "__main__":
    unittest.main()
