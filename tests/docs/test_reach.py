"""Every header is reached by the command or by Python, but those that are named with a reason."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import reach

LIB = "sim"  # of the small tree


class Reach(unittest.TestCase):
    def test_this_tree(self):
        found = reach.unreached(Path(__file__).resolve().parents[2])
        self.assertEqual(sorted(found), sorted(reach.KNOWN))

    def test_a_small_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            files = {
                "tools/main.cpp": f'#include "{LIB}/used.hpp"\nint main() {{ run(); }}\n',
                f"{LIB}/used.hpp": "void run();\nvoid add_one(int& to);\n",
                f"{LIB}/used.cpp": f'#include "{LIB}/used.hpp"\n#include "{LIB}/inner.hpp"\nvoid run() {{}}\n',
                f"{LIB}/inner.hpp": "struct Inner {};\n",
                f"{LIB}/one.cpp": f'#include "{LIB}/of_one.hpp"\nvoid add_one(int& to) {{ ++to; }}\n',  # declared elsewhere
                f"{LIB}/of_one.hpp": "struct OfOne {};\n",
                f"{LIB}/alone.hpp": "// void run();\nvoid alone();\n",
                f"{LIB}/alone.cpp": f'#include "{LIB}/alone.hpp"\nvoid alone() {{}}\n',
                "tests/test.cpp": f'#include "{LIB}/alone.hpp"\n',
            }
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            subprocess.run(["git", "init", "-q", root], check=True)
            self.assertEqual(reach.unreached(root), {f"{LIB}/alone.hpp": 4})


if __name__ == "__main__":
    unittest.main()
