"""The JSON Schema that the command prints: valid draft-07, accepts what ships, refuses what `validate` refuses."""

import copy
import json
import pathlib
import subprocess
import sys
import unittest

import jsonschema

COMMAND, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads(run("schema").stdout)
        cls.validator = jsonschema.Draft7Validator(cls.schema)
        cls.serving = next(s for s in cls.schema["anyOf"] if s["properties"]["system"]["const"] == "serving")
        cls.config = json.loads((ROOT / "experiments/studies/first_light.json").read_text())

    def refused(self, change) -> bool:
        config = copy.deepcopy(self.config)
        change(config)
        return not self.validator.is_valid(config)

    def test_is_draft_07(self):
        self.assertEqual(self.schema["$schema"], "http://json-schema.org/draft-07/schema#")
        jsonschema.Draft7Validator.check_schema(self.schema)

    def test_accepts_every_config_that_ships(self):
        for path in sorted((ROOT / "experiments/studies").glob("*.json")):
            with self.subTest(path.name):
                self.validator.validate(json.loads(path.read_text()))

    def test_accepts_the_config_with_all_defaults_filled_in(self):
        for study in ("first_light", "ring_all_reduce", "shared_fat_tree"):
            with self.subTest(study):
                resolved = run("run", str(ROOT / f"experiments/studies/{study}.json"), "--dry-run", "--quiet")
                self.assertEqual(resolved.returncode, 0, resolved.stderr)
                self.validator.validate(json.loads(resolved.stdout))

    def test_refuses_what_validate_refuses(self):
        def unknown(c):
            c["machin"] = {}

        def unit(c):
            c["slo"]["ttft"] = "2 m"

        def bare(c):
            c["slo"]["ttft"] = 2

        def policy(c):
            c["policies"]["batching"]["policy"] = "sarahti"

        def parameter(c):
            c["policies"]["batching"]["sarathi"]["token_bugdet"] = 1

        def out_of_range(c):
            c["policies"]["batching"]["sarathi"]["token_budget"] = 0

        def negative(c):
            c["slo"]["ttft"] = "-2 s"

        def override(c):
            c["machine"]["devices"][0]["override"] = {"memory_bandwith": "1 TB/s"}

        for change in (unknown, unit, bare, policy, parameter, out_of_range, negative, override):
            with self.subTest(change.__name__):
                self.assertTrue(self.refused(change))

    def test_accepts_and_refuses_network_configs_as_validate_does(self):
        config = json.loads((ROOT / "experiments/studies/ring_all_reduce.json").read_text())
        job = config["workload"]["jobs"][0]
        for ranks in ("0-7,h9", [0, 1, "h2"], None):
            job["ranks"] = ranks
            with self.subTest(ranks):
                self.validator.validate(config)
        for key, value in (("ranks", 3), ("bytes", 3), ("collective", "all_reduces"), ("windw", 1), ("repeat", 0)):
            wrong = copy.deepcopy(config)
            wrong["workload"]["jobs"][0][key] = value
            with self.subTest(key):
                self.assertFalse(self.validator.is_valid(wrong))

    def test_accepts_what_builds_on_a_base(self):
        for config in (
            {"base": "c.json", "system": "serving", "model": {"dtype": "bf16"}},
            {"base": "c.json", "system": "serving", "workload": {"trace": {"on_error": "skip"}}},
            {"base": "c.json", "system": "serving", "workload": {"trace": None, "generator": {"requests": 3}}},
        ):
            with self.subTest(config):
                self.validator.validate(config)

    def test_offers_what_the_catalog_has(self):
        properties = self.serving["properties"]
        offered = properties["model"]["properties"]["config"]["anyOf"][0]["enum"]
        self.assertIn("catalog:llama-2-7b", offered)
        self.assertEqual(properties["policies"]["properties"]["batching"]["properties"]["policy"]["default"], "sarathi")

    def test_carries_docs_and_defaults_of_every_policy(self):
        batching = self.serving["properties"]["policies"]["properties"]["batching"]["properties"]
        listed = [c for c in json.loads(run("list", "batching", "--json").stdout)]
        self.assertEqual(sorted(batching["policy"]["enum"]), sorted(c["name"] for c in listed))
        for component in listed:
            properties = batching[component["name"]]["properties"]
            for field in component["fields"]:
                with self.subTest(f"{component['name']}.{field['name']}"):
                    self.assertTrue(properties[field["name"]]["description"].startswith(field["doc"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
