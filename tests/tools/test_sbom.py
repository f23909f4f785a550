"""The SPDX document of the build (tools/sbom): whole, the same each time, and what is missing in it is found out.

ORRERY_COMMAND is the command, ORRERY_MODULE the compiled core of the Python package, where there is one.
"""

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

from orrery_sbom import debian, document, elf, parts  # noqa: E402
from orrery_sbom.names import Names  # noqa: E402

BINARIES = [pathlib.Path(os.environ[name]) for name in ("ORRERY_COMMAND", "ORRERY_MODULE") if os.environ.get(name)]
BINARIES = BINARIES or [ROOT / "build/release/orrery"]
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: somebody
License: Expat or CC0-1.0

Files: debian/*
License: odd one

License: odd one
 Do as you like.
 .
 Or not.
"""


@unittest.skipUnless(shutil.which("dpkg-query"), "no Debian")
class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["SOURCE_DATE_EPOCH"] = "86400"
        cls.addClassCleanup(os.environ.pop, "SOURCE_DATE_EPOCH")
        cls.whole = document.document(ROOT, BINARIES)

    def setUp(self):
        self.found = copy.deepcopy(self.whole)

    def faults(self):
        return "\n".join(document.faults(self.found, ROOT, BINARIES))

    def without(self, name):
        self.found["packages"] = [one for one in self.found["packages"] if one["name"] != name]
        return self.faults()

    def test_it_is_whole(self):
        self.assertEqual("", self.faults())
        self.assertEqual("1970-01-02T00:00:00Z", self.found["creationInfo"]["created"])
        names = {one["name"] for one in self.found["packages"]}
        self.assertLessEqual({"orrery", "libc6", "libfmt9", "libsqlite3-0", "nlohmann-json3-dev", "libcli11-dev",
                              "libpcg-cpp-dev", "libsimdjson-dev", "libeigen3-dev", "libboost1.74-dev",
                              "python3-numpy", "python3-pandas"}, names)

    def test_every_library_is_there(self):
        said = " ".join(one.get("comment", "") for one in self.found["packages"])
        for binary in BINARIES:
            for library in elf.needed(binary):
                self.assertIn(library, said)

    def test_the_same_twice(self):
        self.assertEqual(json.dumps(self.whole), json.dumps(document.document(ROOT, BINARIES)))
        names = [one["name"] for one in self.whole["packages"]]
        self.assertEqual(sorted(names), names)

    def test_what_is_missing_is_found(self):
        said = self.without("libfmt9")
        self.assertIn("libfmt.so.9 is needed, but libfmt9 is not there", said)
        self.assertIn("SPDXRef-libfmt9 is related, but not there", said)

    def test_a_header_that_is_missing_is_found(self):
        gone = document.identifier("libcli11-dev")
        self.found["relationships"] = [one for one in self.found["relationships"] if gone not in one.values()]
        self.assertEqual("libcli11-dev is a part, but not there", self.without("libcli11-dev"))

    def test_what_is_doctored_is_found(self):
        packages = {one["name"]: one for one in self.found["packages"]}
        del packages["libc6"]["versionInfo"]
        packages["libfmt9"]["licenseDeclared"] = "LicenseRef-none"
        packages["libgcc-s1"].pop("licenseComments")
        packages["zlib1g"]["SPDXID"] = packages["libzstd1"]["SPDXID"]
        self.found["spdxVersion"] = "SPDX-1.0"
        said = self.faults()
        for fault in ("libc6 has no versionInfo", "libfmt9: LicenseRef-none has no text", "spdxVersion",
                      "one identifier", "libgcc-s1 declares no licence, and does not say why"):
            self.assertIn(fault, said)

    def test_the_page(self):
        """The table of docs/explain/trust.md has what runs with the project, each under its licence."""
        page = (ROOT / "docs/explain/trust.md").read_text(encoding="utf8")
        section = page.partition("## What it is made of")[2]
        rows = dict(re.findall(r"^\| ([^|]+) \| (`[^|]*|– )\|", section, re.MULTILINE))
        shown = {name: licence for licence, cell in rows.items() for name in re.findall(r"`([^`]+)`", cell)}
        made = {name: licence if licence != document.NO else "see the package’s file"
                for licence, row in document.licences(self.whole).items() for name in row["runs"]}
        for name, licence in made.items():
            self.assertEqual(licence, shown.get(name), f"{name}: tools/sbom --table makes the table")
        # What the page has beyond that is no part of this build: an optional package, or a core that is not built.
        optional = {name for group in ("optional", "python", "cluster", "notebook", "report")
                    for name in parts.groups(ROOT / "tools/packages.txt")[group]} | {"libpagmo8", "python3.11-dev"}
        self.assertLessEqual(set(shown) - set(made) - optional, {"plotly.js"})


class LicenceTest(unittest.TestCase):
    def test_names(self):
        names = Names()
        for debians, spdx in (("Expat", "MIT"), ("GPL-2+", "GPL-2.0-or-later"), ("LGPL-2.1", "LGPL-2.1-only"),
                              ("MPL-2", "MPL-2.0"), ("Expat or CC0-1.0", "MIT OR CC0-1.0"),
                              ("GPL-3+ or Expat and BSD-3", "GPL-3.0-or-later OR (MIT AND BSD-3-Clause)"),
                              ("odd one", "LicenseRef-odd-one")):
            self.assertEqual(spdx, names.expression(debians))
        self.assertEqual({"odd one": "LicenseRef-odd-one"}, names.own)

    def test_copyright_files(self):
        with tempfile.TemporaryDirectory() as folder:
            docs, debian.DOCS = debian.DOCS, pathlib.Path(folder)
            self.addCleanup(setattr, debian, "DOCS", docs)
            for name, text in (("good", COPYRIGHT), ("prose", "This package was made by hand.\n\nLicense: MIT\n")):
                (debian.DOCS / name).mkdir()
                (debian.DOCS / name / "copyright").write_text(text)
            good = debian.licence("good")
            self.assertEqual(("Expat or CC0-1.0", ("odd one",)), (good.declared, good.others))
            self.assertIn("Do as you like.", dict(good.texts)["odd one"])
            self.assertEqual("odd one", debian.licence("good", "debian/*").declared)
            self.assertIn("Not machine-readable", debian.licence("prose").comment)
            self.assertIn("is not there", debian.licence("gone").comment)

    def test_what_is_no_program(self):
        with self.assertRaisesRegex(ValueError, "not a 64-bit"):
            elf.needed(pathlib.Path(__file__))


if __name__ == "__main__":
    unittest.main()
