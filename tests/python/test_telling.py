"""What answers say of themselves: their repr, their tables in notebooks, names, and keywords that are not there."""

import inspect
import re
import unittest

import orrery
from support import FIRST_LIGHT, ROOT, config

STUDY = {
    "kind": "study", "version": 1, "base": {"base": str(FIRST_LIGHT), "workload": {"limit": 40}},
    "parameters": [{"name": "rate", "path": "workload.rate_scale", "values": [1, 2]}],
    "measures": {"ttft_s": "ttft_s.mean"}, "objectives": [{"minimise": "ttft_s"}],
}
TIGHT = {"slo": {"ttft": "10 s", "tbt": "40 ms"}}


class ReprTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = orrery.run(config(), **TIGHT)

    def test_a_run(self):
        self.assertRegex(repr(self.served), r"^<Result ok: [\d.]+ s simulated, P99 TTFT [\d.]+ m?s, TBT [\d.]+ ms, E2E [\d.]+ s")

    def test_answers_of_questions(self):
        most = orrery.capacity(config(), slo_ttft="10s", slo_tbt="40ms", requests=200, replications=1, suggest=False)
        self.assertEqual(repr(most), f"<Result ok: capacity {most['capacity_per_s']:.4g} requests/s, TBT binds>")
        self.assertIn("requests/s, TBT binds", most._repr_html_())
        none = orrery.capacity(config(), slo_ttft="1us", requests=100, replications=1, min_rate="1 1/s")
        self.assertRegex(repr(none), r"^<Result nothing_meets: .*not even ")
        swept = orrery.slo(config(100), slo_ttft="10s", slo_tbt="100s", rates=["0.1"], scales=[1])
        self.assertRegex(repr(swept), r"^<Result ok: \d+ % attain the targets up to 0\.1 requests/s")
        plans = orrery.plans(config(50), devices=[1], parts=["a100-sxm4-80gb", "h100-sxm5-80gb"])
        self.assertRegex(repr(plans), r"^<Result ok: 2 of 2 plans fit, best 1 x [ah]100-\S+ as 1x1x1 with sarathi")

    def test_another_system_shows_its_first_figures(self):
        told = orrery.run({
            "system": "graph", "machine": {"device": {"part": "a100-sxm4-80gb"}},
            "model": {"builder": {"policy": "bert", "bert": {"layers": 2}}},
            "workload": {"bind": {"batch": 8, "tokens": 128}, "requests": 1}})
        self.assertRegex(repr(told), r"^<Result ok: simulated_s [\d.]+ (m|µ)s, latency_s.p50 [\d.]+ (m|µ)s, ")

    def test_tables_are_in_readable_units(self):
        """No seconds below a tenth, no bytes by the digit: `0.0123` and `13475123200` stand nowhere."""
        page = self.served._repr_html_()
        cells = dict(re.findall(r"<code>([\w.]+)</code></td><td>([^<]*)</td>", page))
        self.assertRegex(cells["ttft_s"], r"^[\d.]+ m?s$")
        self.assertRegex(cells["memory_bytes.weights"], r"^12\.6 GiB$")  # 13,476,831,232 bytes of Llama-2-7B in fp16
        self.assertRegex(cells["energy_j.total"], r"^[\d.]+ kJ$")
        for name, text in cells.items():
            if re.search(r"_(s|bytes|j)(\.|$)", name) and not name.endswith("_per_s"):
                self.assertRegex(text, r"^(0|[\d,.]+(e[+-]\d+)?) ?\S*[A-Za-z]$|^0|^–$", name)
                self.assertNotRegex(text, r"\d{6}|^0\.0\d", name)

    def test_frames_are_in_readable_units(self):
        plan = orrery.plan({"id": ["a", "b"], "lower": [0, 0], "upper": [4, 8], "size": [13 << 30, 32 << 20]})
        self.assertIn("13.03 GiB", repr(plan))
        self.assertIn("<td>13 GiB</td>", plan._repr_html_().replace("13.0", "13"))
        self.assertRegex(orrery.Study(STUDY).run(jobs=1)._repr_html_(), r"<td>[\d.]+ ms</td>")

    def test_nobody_served(self):
        """Status, repr, table and figures say so; a table that nobody stands in is there."""
        result = orrery.run(config(3, rate="100 1/s"), run={"until": "100 ms", "timeline": {"enabled": False}})
        self.assertEqual((result.status, result.ok), ("unfinished", False))
        self.assertRegex(repr(result), r"^<Result unfinished: none of \d+ requests? was completed")
        self.assertIn("<b>unfinished</b>: none of ", result._repr_html_())
        for path in ("ttft_s.p99", "tbt_s.p50", "e2e_s.mean"):
            with self.assertRaisesRegex(KeyError, "(nobody has|no figure) .*none of .* was completed", msg=path):
                result[path]
        self.assertEqual(result["requests.completed"], 0)

    def test_a_figure_that_no_request_has(self):
        """One output token has no TPOT."""
        one = config(5)
        one["workload"]["generator"]["lengths"] = {"policy": "fixed", "fixed": {"prompt": 64, "output": 1}}
        result = orrery.run(one)
        self.assertTrue(result.ok)
        with self.assertRaisesRegex(KeyError, "nobody has 'tpot_s.p99': no request of this run has one"):
            result["tpot_s.p99"]


class NamesTest(unittest.TestCase):
    def test_dir_is_the_public_api(self):
        self.assertEqual(set(dir(orrery)), {*orrery.__all__, "__version__"})
        for name in dir(orrery):
            self.assertTrue(hasattr(orrery, name), name)
        for internal in ("catalog", "commands", "config", "_orrery", "shown", "answers", "keywords"):
            self.assertNotIn(internal, dir(orrery))


_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_USER_MADE = ("Machine", "Model", "Search", "Study", "Timeline", "Trace")  # other objects are made by functions
_ASKED = ("Graph", "Machine", "Model", "Result", "Search", "Study", "Trace")  # whose methods users call


def keyword_of(function) -> str | None:
    """A keyword that is long enough to be misspelt, of a function that has no others than its own."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None  # sections or parameters: below
    return next((one.name for one in parameters if one.kind in _KINDS and len(one.name) > 3 and one.name != "self"), None)


def misspelt(word: str) -> str:
    return word[:-2] + word[-1] + word[-2] if word[-1] != word[-2] else word[:-1]


def public() -> dict:
    """Functions and constructors of the package and of plots, and methods of its classes, by name."""
    found = {name: one for name in orrery.__all__ if inspect.isfunction(one := getattr(orrery, name))}
    found.update({name: getattr(orrery, name) for name in _USER_MADE})
    found.update({f"plot.{name}": one for name, one in inspect.getmembers(orrery.plot, inspect.isfunction)
                  if not name.startswith("_")})
    for name in _ASKED:
        found.update({f"{name}.{method}": one for method, one in inspect.getmembers(getattr(orrery, name), inspect.isfunction)
                      if not method.startswith("_")})
    return found


class KeywordTest(unittest.TestCase):
    def test_every_public_function_answers_by_name(self):
        checked = 0
        for name, one in public().items():
            if (word := keyword_of(one)) is None:
                continue
            with self.subTest(name):
                with self.assertRaisesRegex(TypeError, rf"has no keyword '{misspelt(word)}' \(did you mean '{word}'\?\)"):
                    one(**{misspelt(word): None})
                checked += 1
        self.assertGreater(checked, 40)

    def test_beside_sections_and_parameters(self):
        """Where keywords are names of the config, of parameters or of sizes too, the nearest of all is told."""
        space = {"x": {"range": [0, 1]}}
        for call, word in (
            (lambda: orrery.capacity(FIRST_LIGHT, slo_tfft="2s"), "slo_ttft"),
            (lambda: orrery.capacity(FIRST_LIGHT, replicatoins=2), "replications"),
            (lambda: orrery.slo(FIRST_LIGHT, scale=[1]), "scales"),
            (lambda: orrery.plans(FIRST_LIGHT, device=[1]), "devices"),
            (lambda: orrery.train(FIRST_LIGHT, step=[1]), "steps"),
            (lambda: orrery.run(FIRST_LIGHT, tabels=False), "tables"),
            (lambda: orrery.run(FIRST_LIGHT, sed=3), "seed"),
            (lambda: orrery.run(FIRST_LIGHT, workloda={"limit": 3}), "workload"),
            (lambda: orrery.read(FIRST_LIGHT, routign=3), "routing"),
            (lambda: orrery.Study(STUDY, batchign=3), "batching"),
            (lambda: orrery.reproduce("tempo", job=2), "jobs"),
            (lambda: orrery.evolve(ROOT / "experiments/studies/evolve_queue.json", proposre="x"), "proposer"),
            (lambda: orrery.make_env("cart_pole", max_step=3), "max_steps"),
            (lambda: orrery.make_vec_env("cart_pole", 2, thread=3), "threads"),
            (lambda: orrery.NativeBatching("sarathi", token_budgt=3), "token_budget"),
            (lambda: orrery.graph("bert", batch=1, token=2), "tokens"),
            (lambda: orrery.graph("bert", parms={}), "params"),
            (lambda: orrery.search(lambda x: {}, space, "y", evaluation=3), "evaluations"),
            (lambda: orrery.search(lambda x: {}, space, "y", constraint=3), "constraints"),
            (lambda: orrery.plan("x.csv", capacty=3), "capacity"),
        ):
            with self.subTest(word), self.assertRaisesRegex((orrery.ConfigError, TypeError), f"did you mean '{word}'"):
                call()
        faults = orrery.validate(FIRST_LIGHT, overides={"workload.limit": 3})
        self.assertEqual([fault.hint for fault in faults], ["did you mean 'overrides'?"])

    def test_what_is_right_passes(self):
        """Signatures, names and docs are those of the functions."""
        self.assertEqual(list(inspect.signature(orrery.run).parameters)[:2], ["config", "overrides"])
        self.assertIn("slo_ttft", inspect.signature(orrery.capacity).parameters)
        self.assertTrue(orrery.run.__doc__.startswith("Runs an experiment"))
        self.assertEqual(orrery.Trace.generate.__name__, "generate")


if __name__ == "__main__":
    unittest.main()
