#!/usr/bin/env python3
"""`cmake --install` into a folder that is then moved: the command, Python, the manual page, and a plugin built against it.

    test_install.py BUILD_FOLDER SOURCE_FOLDER COMMAND(S)…

With `packages` as a further word it makes the Debian packages instead and unpacks them.
"""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
WHAT = sys.argv[3] if len(sys.argv) > 3 else "tree"
PYTHON = "/usr/bin/python3"


def environment(**more):
    """Without what would point into the source tree."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ORRERY_", "PYTHON"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "CMAKE_GENERATOR": "Ninja", **more}


def run(*words, cwd="/", env=None, code=0):
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env or environment(), text=True, capture_output=True)
    if done.returncode != code:
        raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done


WRONG = 'extern "C" const char* orrery_plugin_abi() { return "0.0.1 (headers 0)"; } extern "C" void* orrery_plugin() { return 0; }'
TAKEN = """
#include "policies/plugin.hpp"
#include "policies/routing/routing.hpp"
using namespace orrery;
struct Mine final : policies::Router { std::size_t route(const policies::RouteView&) override { return 0; } };
static void add(policies::RouterRegistry& registry) {
  registry.add<sim::NoParams>("jsq", "Mine.", [](const sim::NoParams&, sim::RandomStream) { return std::make_unique<Mine>(); });
}
ORRERY_PLUGIN(.name = "taken", .routing = add);
"""

# A router as plugins were written for 0.1: headers under their old names, fields in a std::tuple.
OLD = """
#include "models/op_graph.hpp"
#include "policies/graph_pass.hpp"
#include "policies/plugin.hpp"
#include "policies/routing/routing.hpp"
#include "policies/types.hpp"
#include "sim/timeline.hpp"
using namespace orrery;
struct OldParams {
  std::int64_t replica = 0;
  static constexpr auto fields() {
    return std::tuple{sim::field("replica", &OldParams::replica, sim::Unit::count, sim::between(0, 9), "Where all go.")};
  }
};
struct Old final : policies::Router { std::size_t route(const policies::RouteView&) override { return 0; } };
static void add(policies::RouterRegistry& registry) {
  registry.add<OldParams>("old", "All to one.", [](const OldParams&, sim::RandomStream) { return std::make_unique<Old>(); });
}
ORRERY_PLUGIN(.name = "old", .routing = add);
"""


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="orrery-install-"))
        first = cls.scratch / "first"
        if WHAT == "packages":
            run("cpack", "-G", "DEB", "-B", cls.scratch / "packages", cwd=BUILD)
            for package in (cls.scratch / "packages").glob("*.deb"):
                run("dpkg", "-x", package, first)
            cls.prefix = cls.scratch / "moved/usr"
        else:
            run("cmake", "--install", BUILD, "--prefix", first)
            cls.prefix = cls.scratch / "moved"
        first.rename(cls.scratch / "moved")
        cls.command = cls.prefix / "bin/orrery"
        cls.share = cls.prefix / "share/orrery"
        cls.python = cls.prefix / "lib/python3/dist-packages"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def config(self):
        return self.share / "experiments/studies/first_light.json"

    def small(self, *more, code=0):
        out = pathlib.Path(tempfile.mkdtemp(dir=self.scratch)) / "run"
        done = run(self.command, "run", self.config(), "--set", "workload.limit=200", "--out", out, *more, code=code)
        return out, done

    def test_command_finds_its_data_wherever_the_tree_lies(self):
        faults = run(self.command, "describe", "no-such-thing", code=2).stderr
        self.assertIn("nothing is called", faults)
        self.assertIn(str(self.share), run(self.command, "describe", "sweep_serving").stdout)
        out, _ = self.small()
        told = json.loads((out / "manifest.json").read_text())
        for given in told["inputs"]:
            self.assertTrue(given["path"].startswith(str(self.prefix)), given)
        self.assertNotIn("plugins", told)
        mine = pathlib.Path(tempfile.mkdtemp(dir=self.scratch)) / "run"
        run(BUILD / "orrery", "run", self.config(), "--set", "workload.limit=200", "--out", mine, "--quiet")
        for name in ("summary.json", "requests.csv", "series.csv", "energy.csv"):
            self.assertEqual((out / name).read_bytes(), (mine / name).read_bytes(), name)

    def test_studies_and_rules_are_whole(self):
        studies = sorted((self.share / "experiments/studies").glob("*.json"))
        self.assertEqual(len(studies), len(list((SOURCE / "experiments/studies").glob("*.json"))))
        for folder in ("hw/catalog", "models/catalog", "policies/fusion/rules", "traces/samples"):
            self.assertEqual(sorted(p.name for p in (SOURCE / folder).rglob("*")),
                             sorted(p.name for p in (self.share / folder).rglob("*")))
        run(self.command, "validate", "--quiet", self.config(), self.share / "experiments/studies/sweep_serving.json")

    @unittest.skipUnless((BUILD / "orrery_pagmo.so").exists(), "a build without pagmo")
    def test_a_driver_of_its_own_module_is_found(self):
        module = self.prefix / "lib/orrery/orrery_pagmo.so"
        store = pathlib.Path(tempfile.mkdtemp(dir=self.scratch)) / "toy.sqlite"
        toy = [self.command, "search", self.share / "experiments/studies/search_toy.json", "--set", "search.budget=16",
               "--set", "search.driver.policy=pagmo", "--quiet"]
        run(*toy, "--out", store)
        away = module.rename(module.with_name("away.so"))  # the build's own is not taken in its place
        try:
            self.assertIn("pagmo: its module cannot be loaded", run(*toy, "--out", store.with_name("b.sqlite"), code=2).stderr)
        finally:
            away.rename(module)

    def test_schema_manual_and_completion(self):
        schema = json.loads((self.share / "schemas/orrery.schema.json").read_text())
        self.assertEqual(schema, json.loads(run(self.command, "schema").stdout))
        page = gzip.decompress((self.prefix / "share/man/man1/orrery.1.gz").read_bytes()).decode()
        for command in ("run", "sweep", "trace generate", "reproduce", "validate"):
            self.assertIn(f".SS orrery {command} ", page.replace("\\-", "-"))
        self.assertIn("\\-\\-plugin", page)
        if shutil.which("man"):
            shown = run("man", "--warnings", "-l", "-P", "cat", self.prefix / "share/man/man1/orrery.1.gz")
            self.assertEqual(shown.stderr, "")
        words = run("bash", "-c", f". {self.prefix}/share/bash-completion/completions/orrery; "
                    f"COMP_WORDS=({self.command} va) COMP_CWORD=1 COMP_LINE='orrery va' COMP_POINT=9; _orrery; "
                    "echo ${COMPREPLY[@]}").stdout
        self.assertEqual(words.split(), ["validate"])

    def test_python(self):
        if not list((BUILD / "python/orrery").glob("_orrery*.so")):
            self.skipTest("the Python package was not built")
        told = run(PYTHON, "-c", "import orrery; r = orrery.run(orrery.home_folder() + '/experiments/studies/first_light.json', "
                   "{'workload.limit': 50}); print(orrery.home_folder(), len(r.requests))", env=environment(PYTHONPATH=str(self.python)))
        self.assertEqual(told.stdout.split(), [str(self.share), "50"])

    def test_report(self):
        out, _ = self.small()
        run(self.command, "report", out)
        self.assertTrue((out / "report.html").is_file())

    def plugin(self):
        """The example, built once."""
        built = self.scratch / "plugin"
        if not built.exists():
            source = self.scratch / "plugin-source"
            shutil.copytree(SOURCE / "tools/examples/plugin", source)
            run("cmake", "-S", source, "-B", built, "-DCMAKE_PREFIX_PATH=" + str(self.prefix), "-DCMAKE_CXX_FLAGS_RELEASE=-O1")
            run("cmake", "--build", built)
        return built / "shortest_prompt.so"

    def test_plugin(self):
        plugin = self.plugin()
        choose = ["--set", "policies.batching.policy=shortest_prompt"]
        self.assertIn("aging", run(self.command, "describe", "shortest_prompt", "--plugin", plugin).stdout)
        self.assertIn("shortest_prompt", run(self.command, "--plugin", plugin, "list", "batching").stdout)
        self.assertIn("shortest_prompt", run(self.command, "schema", "--plugin", plugin).stdout)
        _, without = self.small(*choose, code=2)
        self.assertIn("unknown batching policy 'shortest_prompt'", without.stderr)
        _, wrong = self.small("--plugin", plugin, *choose, "--set", "policies.batching.shortest_prompt.aging=-1", code=2)
        self.assertIn("/policies/batching/shortest_prompt/aging", wrong.stderr)
        _, slip = self.small("--plugin", plugin, "--set", "policies.batching.policy=shortest_promt", code=2)
        self.assertIn("did you mean 'shortest_prompt'?", slip.stderr)

        out, _ = self.small("--plugin", plugin, *choose)
        again = pathlib.Path(tempfile.mkdtemp(dir=self.scratch)) / "run"
        run(self.command, "run", self.config(), "--set", "workload.limit=200", *choose, "--out", again,
            env=environment(ORRERY_PLUGINS=str(plugin)))
        self.assertEqual((out / "requests.csv").read_bytes(), (again / "requests.csv").read_bytes())
        told = json.loads((out / "manifest.json").read_text())
        self.assertEqual([p["name"] for p in told["plugins"]], ["shortest_prompt"])
        self.assertEqual(told["plugins"][0]["path"], str(plugin.resolve()))
        self.assertRegex(told["plugins"][0]["digest"], "^[0-9a-f]{16}$")
        plain, _ = self.small()
        self.assertNotEqual((out / "requests.csv").read_bytes(), (plain / "requests.csv").read_bytes())
        self.assertNotEqual(told["build"], json.loads((plain / "manifest.json").read_text())["build"])

        script = (
            "import orrery, sys; orrery.list('batching'); p = orrery.load_plugin(sys.argv[1]); orrery.load_plugin(sys.argv[1]);"
            "assert 'shortest_prompt' in orrery.list('batching') and len(orrery.plugins()) == 1;"
            "orrery.run(sys.argv[2], {'workload.limit': 200, 'policies.batching.policy': 'shortest_prompt'}, out=sys.argv[3]);"
            "print(p.name, orrery.describe('shortest_prompt').kind)")
        third = again.parent / "python"
        done = run(PYTHON, "-c", script, plugin, self.config(), third, env=environment(PYTHONPATH=str(self.python)))
        self.assertEqual(done.stdout.split(), ["shortest_prompt", "batching"])
        self.assertEqual((out / "requests.csv").read_bytes(), (third / "requests.csv").read_bytes())

    def fault(self, plugin, expected):
        done = run(self.command, "list", "batching", "--plugin", plugin, code=2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(str(plugin), done.stderr)
        self.assertIn(expected, done.stderr)

    def compiled(self, name, text, *flags):
        file = self.scratch / f"{name}.cpp"
        file.write_text(text)
        run("g++", "-shared", "-fPIC", "-std=c++20", *flags, file, "-o", self.scratch / f"{name}.so")
        return self.scratch / f"{name}.so"

    def test_faulty_plugins(self):
        self.fault(self.scratch / "absent.so", "found no such file")
        self.fault(self.config(), "expected a shared object of this machine, found something else")
        self.fault(self.compiled("empty", ""), "found no entry 'orrery_plugin_abi'")
        self.fault(self.compiled("wrong", WRONG), "got one for 0.0.1 (headers 0)")

    def test_a_plugin_that_was_cut_or_is_of_another_machine(self):
        """Mapped as it is, it would end the program with SIGBUS."""
        whole = self.compiled("whole", WRONG).read_bytes()
        damaged = self.scratch / "damaged.so"
        for size in (0, 63, 64, 200, 4096, len(whole) // 2, len(whole) - 1):
            damaged.write_bytes(whole[:size])
            self.fault(damaged, f"{size} bytes")
        for place, byte, found in ((4, 1, "a program of another kind"), (18, 183, "a program of another kind"),
                                   (54, 57, "damaged headers"), (39, 127, "one cut short")):  # 32 bits, ARM, e_phentsize, e_phoff
            damaged.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1:])
            self.fault(damaged, found)

    def built(self, name, text):
        """A plugin of one file, built against the installed tree."""
        source = self.scratch / f"{name}-source"
        source.mkdir()
        (source / f"{name}.cpp").write_text(text)
        cmake = (SOURCE / "tools/examples/plugin/CMakeLists.txt").read_text().replace("shortest_prompt", name)
        (source / "CMakeLists.txt").write_text(cmake)
        run("cmake", "-S", source, "-B", source / "build", "-DCMAKE_PREFIX_PATH=" + str(self.prefix), "-DCMAKE_CXX_FLAGS_RELEASE=-O0")
        run("cmake", "--build", source / "build")
        return (source / f"build/{name}.so").resolve()

    def test_a_name_that_is_taken(self):
        self.fault(self.built("taken", TAKEN), "there is a routing policy 'jsq' already")

    def test_a_plugin_written_for_the_version_before(self):
        plugin = self.built("old", OLD)
        choose = ["--plugin", plugin, "--set", "policies.routing.policy=old"]
        self.small(*choose)
        _, wrong = self.small(*choose, "--set", "policies.routing.old.replica=10", code=2)
        self.assertIn("/policies/routing/old/replica", wrong.stderr)


class Packages(Installed):
    """The same tree out of packages, and what their control files say."""

    def test_control(self):
        folder = self.scratch / "packages"
        control = {p.name.split("_")[0]: run("dpkg-deb", "-f", p).stdout for p in folder.glob("*.deb")}
        self.assertEqual(sorted(control), ["orrery", "orrery-dev"])
        for field in ("libfmt9", "libsqlite3-0", "libc6", "python3-pandas", "Section: science", "Maintainer:", "Installed-Size:"):
            self.assertIn(field, control["orrery"])
        self.assertIn("libboost-dev", control["orrery-dev"])

    def test_the_same_tree_gives_the_same_bytes(self):
        again = self.scratch / "again"
        run("cpack", "-G", "DEB", "-B", again, cwd=BUILD)
        for package in (self.scratch / "packages").glob("*.deb"):
            self.assertEqual(package.read_bytes(), (again / package.name).read_bytes(), package.name)

    def test_development_files_alone(self):
        inside = run("dpkg-deb", "-c", next((self.scratch / "packages").glob("orrery-dev_*"))).stdout
        self.assertNotIn("/bin/", inside)
        self.assertNotIn(str(SOURCE), inside)


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Packages if WHAT == "packages" else Installed)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
