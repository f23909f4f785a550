"""Stubs: made anew they are those of the build; they name what is there; mypy holds the docs to them."""

import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import unittest

import orrery
from orrery import _orrery, params
from support import ROOT, config

BUILT = pathlib.Path(params.__file__).parent
sys.path.insert(0, str(ROOT / "tools/python"))


CACHE = tempfile.TemporaryDirectory()


def mypy(text: str, silent: bool = True) -> str:
    """What mypy says of a file; unless `silent`, of the package that it imports too."""
    folder = pathlib.Path(CACHE.name)
    (folder / "user.py").write_text(text)
    (folder / "mypy.ini").write_text(
        "[mypy]\nignore_missing_imports = True\n" + ("[mypy-orrery.*]\nfollow_imports = silent\n" if silent else ""))
    told = subprocess.run(
        ["/usr/bin/mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "user.py"], cwd=folder,
        capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "MYPYPATH": str(BUILT.parent), "ORRERY_HOME": str(ROOT)})
    return told.stdout + told.stderr


class StubTest(unittest.TestCase):
    def test_are_those_of_the_build(self):
        from orrery_stubs.__main__ import texts

        for name, text in texts(_orrery).items():
            with self.subTest(name):
                compile(text, name, "exec")
                self.assertTrue((BUILT / name).read_text() == text, f"{name} is another one: ninja orrery_stubs")

    def test_name_what_is_there(self):
        """Every function and class of the core, every keyword of what is made by name."""
        core = (BUILT / "_orrery.pyi").read_text()
        for name, member in vars(_orrery).items():
            if not name.startswith("__"):
                self.assertRegex(core, rf"(?m)^(def {name}\(|class {name}:|{name}: )")
            if inspect.isclass(member):
                for method in [m for m in vars(member) if not m.startswith("_")]:
                    self.assertIn(f"    def {method}(", core)
        named = (BUILT / "named.pyi").read_text()
        for kind, function in (("env", "make_env"), ("batching", "__init__")):
            for component in orrery.components(kind):
                lines = [one for one in named.splitlines() if f"def {function}(" in one]
                line = next(one for one in lines if f'"{component.name}"' in one)
                for field in component.fields:
                    self.assertIn(f" {field['name']}: ", line)

    def test_defaults_are_of_their_types(self):
        """A default, as a config states it, is of the type that its field is declared with."""

        def fits(value, kind) -> bool:
            origin, inner = typing.get_origin(kind), typing.get_args(kind)
            if kind is typing.Any:
                return True
            if origin is typing.Union:
                return any(fits(value, one) for one in inner)
            if origin is typing.Literal:
                return value in inner
            if origin is not None and origin.__name__ == "Sequence":
                return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
            if typing.is_typeddict(kind) or (origin is not None and origin.__name__ == "Mapping"):
                return isinstance(value, (dict, str, list))  # a block of policies: its default is a name
            return isinstance(value, (int, float) if kind is float else kind)

        checked = 0
        for component in orrery.components():
            name = "".join(part[:1].upper() + part[1:] for word in (component.kind, component.name)
                           for part in re.split(r"[^0-9A-Za-z]+", word))
            if not hasattr(params, name):
                continue  # equal to another one's
            hints = typing.get_type_hints(getattr(params, name), vars(params))
            for field in component.fields:
                if field["default"] is not None:
                    self.assertTrue(fits(field["default"], hints[field["name"]]), (name, field, hints[field["name"]]))
                    checked += 1
        self.assertGreater(checked, 300)

    def test_configs(self):
        """Sections of a resolved config are those of its type."""
        resolved = orrery.run(config(5), tables=False).config
        sections = typing.get_type_hints(params.ServingConfig, vars(params))
        self.assertLessEqual(set(resolved) - {"kind", "version"}, set(sections))
        batching = typing.get_type_hints(params.BatchingBlock, vars(params))
        self.assertEqual(set(batching) - {"policy"}, set(orrery.list("batching")))

    def test_mypy(self):
        """What is right passes; what is wrong does not."""
        right = """
import orrery
env = orrery.make_env("cart_pole", max_steps=10)
policy = orrery.NativeBatching("sarathi", token_budget=256)
config: orrery.params.ServingConfig = {"slo": {"ttft": "2 s"}, "policies": {"batching": {"policy": "sarathi"}}}
result: orrery.Result = orrery.run(config, {"workload.limit": 3})
print(env.step(0), policy, result.requests)
"""
        told = mypy(right.replace("import orrery\n", "import orrery, orrery.params\n"))
        self.assertIn("Success", told, told)
        wrong = (
            'orrery.make_env("cart_pole", max_step=10)',
            'orrery.NativeBatching("sarathi", token_budget="many")',
            'a: orrery.params.ServingConfig = {"slo": {"tft": "2 s"}}',
            'b: orrery.params.ServingConfig = {"policies": {"batching": {"policy": "sarathy"}}}',
            'c: orrery.params.ServingConfig = {"slo": {"ttft": 2}}',
            "orrery.Machine(count=1)",
            "orrery.capacity('x.json', replications=[{}])",
            "orrery.run(tables=False)",
        )
        told = mypy("import orrery, orrery.params\n" + "\n".join(wrong) + "\n")
        for line, text in enumerate(wrong, 2):
            self.assertIn(f"user.py:{line}: error:", told, text)

    def test_the_package_itself(self):
        told = mypy("import orrery\n", silent=False)
        self.assertIn("Success", told, told)

    def test_docs(self):
        """The snippets of docs/explain/python.md, one after the other."""
        text = (ROOT / "docs/explain/python.md").read_text()
        snippets = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertGreater(len(snippets), 15)
        told = mypy("\n".join(snippets))
        self.assertIn("Success", told, told)


if __name__ == "__main__":
    unittest.main()
