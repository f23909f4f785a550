"""names.py finds what is wrong: a small tree that is right, and each fault by itself."""

import pathlib
import tempfile
import unittest

import names


def faults(**changes: str) -> list[str]:
    """Of a tree of one folder; a change is a file by its path (`__` for `/`, `_dot_` for `.`), "" takes it away."""
    files = {
        "hw/README.md": "# hw\n\n| file | holds |\n| --- | --- |\n| `gpu` | a GPU |\n| `network/*` | links |\n",
        "hw/gpu.hpp": "// A GPU (hw/network/link.hpp).\n",
        "hw/network/link.hpp": "// A link.\n",
        "docs/gpu.md": "In `hw/gpu.hpp`, `link.hpp` and `hw/network`; a new one is `hw/NAME.cpp`.\n",
    }
    files |= {name.replace("__", "/").replace("_dot_", "."): text for name, text in changes.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            if text:
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        tree = names.Tree(pathlib.Path(folder))
        return names.check_names(tree) + names.check_maps(tree)


class Names(unittest.TestCase):
    def test_right(self):
        self.assertEqual(faults(), [])

    def test_pages(self):
        self.assertEqual(faults(docs__gpu_dot_md="In `hw/cpu`.\n"), ["docs/gpu.md:1: there is no hw/cpu"])
        self.assertEqual(faults(docs__gpu_dot_md="In `cpu.hpp`.\n"), ["docs/gpu.md:1: there is no cpu.hpp"])
        self.assertEqual(faults(docs__gpu_dot_md="In `hw/table_<kind>.cpp`, `hw/gpu*`.\n"), [])

    def test_comments(self):
        text = "// As hw/cpu says.\nint hw_cpu();  // or cpu.cpp\n"
        self.assertEqual(faults(hw__gpu_dot_hpp=text), ["hw/gpu.hpp:1: there is no hw/cpu", "hw/gpu.hpp:2: there is no cpu.cpp"])

    def test_maps(self):
        row = "| file | holds |\n| --- | --- |\n| `gpu` | a GPU |\n"
        self.assertEqual(faults(hw__README_dot_md=row), ["hw/README.md: does not name network/link"])
        self.assertEqual(faults(hw__README_dot_md=row, hw__network__README_dot_md="| `link` | a link |\n"), [])
        self.assertEqual(faults(hw__README_dot_md=row + "| `network/link`, `cpu` | |\n"), ["hw/README.md:4: there is no cpu in hw"])
        self.assertEqual(faults(hw__README_dot_md=row + "| `network/` | |\n" + "\n" * 40 + "x\n")[0],
                         "hw/README.md:31: a map of 45 lines, more than 30")

    def test_this_tree(self):
        tree = names.Tree(names.ROOT)
        self.assertEqual(names.check_names(tree) + names.check_maps(tree), [])


if __name__ == "__main__":
    unittest.main()
