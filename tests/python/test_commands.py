"""The other commands as functions: each gives what the command prints, and its faults."""

import contextlib
import inspect
import json
import pathlib
import tempfile
import unittest
import urllib.request

import orrery
from support import FIRST_LIGHT, ROOT, command, config


class QuestionTest(unittest.TestCase):
    """Runs that ask another question: the options of the command as keywords."""

    def same(self, name: str, options: list, **keywords):
        said = command(name, FIRST_LIGHT, *options, "--json", "--quiet", "--out", self.out / name)
        self.assertEqual(said.returncode, 0, said.stderr)
        ours = getattr(orrery, name)(FIRST_LIGHT, {"workload.limit": 60}, tables=False, **keywords)
        self.assertEqual(ours.summary, json.loads(said.stdout))
        return ours

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)

    def test_capacity(self):
        limit = ["--set", "workload.limit=60"]
        once = [*limit, "--replications", "1", "--tolerance", "0.2", "--force"]
        self.same("capacity", [*once, "--slo-ttft", "2s", "--max-rate", "64"],
                  slo_ttft="2s", replications=1, tolerance=0.2, max_rate=64)
        self.same("capacity", [*once, "--limit", "tbt.p99=100ms"], limit="tbt.p99=100ms", replications=1, tolerance=0.2)

    def test_slo(self):
        self.same("slo", ["--set", "workload.limit=60", "--slo-ttft", "1s", "--rates", "2,8", "--scales", "0.5,1,2",
                          "--replications", "1"],
                  slo_ttft="1s", rates=[2, 8], scales=[0.5, 1, 2], replications=1)

    def test_plans(self):
        self.same("plans", ["--set", "workload.limit=60", "--devices", "1,2", "--tp", "1,2", "--batching",
                            "sarathi,vllm_v1", "--objectives", "latency,throughput"],
                  devices=[1, 2], tp=[1, 2], batching=["sarathi", "vllm_v1"], objectives=["latency", "throughput"])

    def test_train(self):
        ours = orrery.train(ROOT / "experiments/studies/rl_bandit.json", seeds=1, steps=200, tables=False)
        said = command("train", ROOT / "experiments/studies/rl_bandit.json", "--seeds", 1, "--steps", 200, "--json",
                       "--quiet", "--out", self.out / "train")
        self.assertEqual(ours.summary, json.loads(said.stdout))

    def test_goodput(self):
        job = ROOT / "experiments/studies/llama3_job.json"
        said = command("goodput", job, "--points", 3, "--recovery", "elastic", "--duration", "20 d", "--json", "--quiet",
                       "--out", self.out / "goodput")
        ours = orrery.goodput(job, points=3, recovery="elastic", duration="20 d", tables=False)
        self.assertEqual(ours.summary, json.loads(said.stdout))
        self.assertIn("ETTR", str(ours))

    def test_progress(self):
        rewards = ROOT / "docs/how-to/rewards.csv"
        said = command("progress", "fit", rewards, "--start", 0.3, "--from", 1600, "--draws", 20, "--json")
        self.assertEqual(orrery.progress_fit(rewards, start=0.3, since=1600, draws=20), json.loads(said.stdout))
        times = self.out / "times.csv"
        times.write_text("submission,workload,median_time_to_target_s\na,w,10\nb,w,20\n", encoding="utf-8")
        scores = orrery.progress_score(times)
        self.assertEqual(list(scores["submission"]), ["a", "b"])
        self.assertAlmostEqual(scores["score"][1], 2 / 3)

    def test_signatures(self):
        """Every option of the command is a keyword with its doc."""
        for name in ("capacity", "goodput", "slo", "plans", "train"):
            function = getattr(orrery, name)
            keywords = inspect.signature(function).parameters
            options = [line.split()[0][2:] for line in command(name, "--help").stdout.splitlines()
                       if line.lstrip().startswith("--")]
            of_the_shell = {"help", "set", "out", "seed", "force", "dry-run", "json", "quiet", "plugin", "fail-infeasible"}
            for option in set(options) - of_the_shell:
                self.assertIn(option.replace("-", "_"), keywords)
                self.assertIn(f"{option.replace('-', '_')}: ", function.__doc__)

    def test_faults(self):
        for name, options, keywords in (
            ("capacity", ["--limit", "tbt"], {"limit": "tbt"}),
            ("capacity", ["--slo-ttft", "2 kg"], {"slo_ttft": "2 kg"}),
            ("slo", ["--slo-ttft", "1s", "--rates", "-1"], {"slo_ttft": "1s", "rates": [-1]}),
            ("plans", ["--batching", "sarathy"], {"batching": ["sarathy"]}),
        ):
            with self.subTest(name), self.assertRaises(orrery.ConfigError) as caught:
                getattr(orrery, name)(FIRST_LIGHT, **keywords)
            said = command(name, FIRST_LIGHT, *options)
            self.assertEqual(said.returncode, 2)
            self.assertEqual([str(fault) for fault in caught.exception.faults], said.stderr.splitlines())


class AnswerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def test_reproduce(self):
        claims = orrery.reproduce("tempo")
        said = command("reproduce", "tempo", "--json", "--quiet", "--points", self.home / "points.csv")
        self.assertEqual(claims.document, json.loads(said.stdout))
        self.assertEqual(len(claims.points), len((self.home / "points.csv").read_text().splitlines()) - 1)
        self.assertEqual(len(claims), len(claims.document["claims"]))
        self.assertEqual(claims.held + len(claims.missed), len(claims))
        self.assertEqual(set(claims.claims["study"]), {"tempo"})
        self.assertIn("hold", repr(claims))
        self.assertIn("<table>", claims._repr_html_())
        with self.assertRaisesRegex(orrery.ConfigError, "did you mean 'tempo'"):
            orrery.reproduce(["temppo"])

    def test_reproduce_stops(self):
        class Enough(Exception):
            pass

        def tell(progress):
            raise Enough

        with self.assertRaises(Enough):
            orrery.reproduce(["tempo", "vllm_paged"], jobs=1, progress=tell)

    def test_plan(self):
        buffers = {"id": ["a", "b", "c"], "lower": [0, 0, 4], "upper": [4, 8, 8], "size": [64, 32, 64]}
        plan = orrery.plan(buffers, capacity="1 KiB")
        self.assertEqual((plan.lower_bound_bytes, plan.peak_bytes), (96, 96))  # a or c beside b
        self.assertTrue(plan.plans["fits"].all())
        self.assertEqual(set(plan.offsets.columns), {"id", "lower", "upper", "size", "offset"})
        one = orrery.plan(buffers, planner="best_fit")
        self.assertEqual(list(one.plans["planner"]), ["best_fit"])
        self.assertIn("96 B", repr(one))
        with self.assertRaisesRegex(orrery.ConfigError, "--planner: unknown memory_planner policy 'bestfit'"):
            orrery.plan(buffers, planner="bestfit")
        with self.assertRaisesRegex(orrery.ConfigError, "--capacity: expected bytes"):
            orrery.plan(buffers, capacity="1 s")
        with self.assertRaisesRegex(orrery.ConfigError, "nowhere.csv"):
            orrery.plan("nowhere.csv")

    def test_import(self):
        words = ["--model", "meta-llama/Llama-2-7b-hf", "--max-num-seqs", "64"]
        given = orrery.import_config("vllm", words, part="a100-sxm4-80gb", model="catalog:llama-2-7b")
        said = command("import", "vllm", "--part", "a100-sxm4-80gb", "--model-config", "catalog:llama-2-7b", "--",
                       *words)
        self.assertEqual(given, json.loads(said.stdout))
        self.assertEqual([f"note: {note}" for note in given.notes],
                         [line for line in said.stderr.splitlines() if line.startswith("note")])
        of_dict = orrery.import_config("vllm", {"model": "meta-llama/Llama-2-7b-hf", "max_num_seqs": 64},
                                       part="a100-sxm4-80gb", model="catalog:llama-2-7b")
        self.assertEqual(of_dict, given)
        run = orrery.run(given, workload=config(20)["workload"], tables=False)
        self.assertTrue(run.ok)
        with self.assertRaisesRegex(orrery.ConfigError, "unknown engine 'vlm'"):
            orrery.import_config("vlm")

    def test_import_of_training(self):
        words = ["--num-layers", "2", "--hidden-size", "256", "--num-attention-heads", "4", "--vocab-size", "1000",
                 "--tensor-model-parallel-size", "2", "--seq-length", "128", "--frob", "3"]
        given = orrery.import_config("megatron", words, part="l40s", devices=2)
        said = command("import", "megatron", "--part", "l40s", "--devices", "2", "--", *words)
        self.assertEqual(given, json.loads(said.stdout))
        self.assertEqual(given.ignored, ["frob=3"])
        self.assertIn("not carried over: frob=3", said.stderr)
        self.assertTrue(orrery.run(given, tables=False).ok)
        of_dict = orrery.import_config("deepspeed", {"train_batch_size": 4}, model="catalog:llama-3.2-1b", devices=2)
        self.assertEqual(of_dict["workload"]["global_batch"], 4)
        with self.assertRaisesRegex(orrery.ConfigError, "expected a model: DeepSpeed's config names none"):
            orrery.import_config("deepspeed", {"train_batch_size": 4})

    def test_evolve(self):
        study = ROOT / "experiments/studies/evolve_queue.json"
        changes = {"search.generations": 2, "search.genetic.population": 4, "base.workload.limit": 50}
        words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        told = command("evolve", study, "--quiet", "--json", *words)
        if told.returncode == 0:
            self.assertEqual(orrery.evolve(study, changes), json.loads(told.stdout))
        with self.assertRaises(orrery.ConfigError):
            orrery.evolve(FIRST_LIGHT)

    def test_play_and_looks(self):
        """A router of two small trainings: what the command prints, as a frame; a policy of another environment."""
        small = {"train.steps": 400, "train.envs": 1, "train.eval_every": 400, "train.eval_episodes": 1,
                 "train.held_out": [], "train.log": 200, "env.serving_routing.requests": 20,
                 "learner.evolution.population": 2, "learner.evolution.episodes": 1}
        orrery.train(ROOT / "experiments/studies/rl_routing.json", small, out=self.home / "router", tables=False)
        policy, log = self.home / "router/seed-1.policy", self.home / "router/seed-1.steps"
        words = ["--set", "workload.generator.requests=40", "--seeds", "2", "--against", "jsq,hexgen:alpha=0.5"]
        told = json.loads(command("play", policy, *words, "--json", "--quiet").stdout)
        frame = orrery.play(policy, None, {"workload.generator.requests": 40}, seeds=2,
                            against=["jsq", "hexgen:alpha=0.5"])
        self.assertEqual(list(frame.index), ["learned", "jsq", "hexgen:alpha=0.5"])
        for row in told["rows"]:
            for path, figure in row["figures"].items():
                value = frame.loc[row["name"], path]
                self.assertTrue(value == figure["p50"] or (figure["p50"] is None and value != value), path)
                if row["name"] != "learned":
                    self.assertEqual(frame.loc[row["name"], path + ".learned_better"], figure["learned_better"])
        self.assertTrue(frame.loc["learned"].filter(like="learned_better").isna().all())
        again = orrery.play(policy, ROOT / "experiments/studies/mixed_cluster.json",
                            {"workload.generator.requests": 40}, seeds=2, against="jsq")
        self.assertEqual(again.loc["jsq", "e2e_s.mean"], frame.loc["jsq", "e2e_s.mean"])

        seen = orrery.looks(policy, log)
        shown = json.loads(command("play", policy, "--log", log, "--json", "--quiet").stdout)["looks"]
        self.assertEqual(seen.to_dict(), shown["changed"])
        self.assertEqual(seen.attrs["agrees"], shown["agrees"])
        self.assertTrue(seen.is_monotonic_decreasing)
        with self.assertRaisesRegex(ValueError, "at least one file"):
            orrery.looks(policy, [])

        orrery.train(ROOT / "experiments/studies/rl_bandit.json", seeds=1, steps=200, out=self.home / "bandit",
                     tables=False)
        bandit = next((self.home / "bandit").glob("*.policy"))
        played = orrery.play(bandit, episodes=3)
        self.assertEqual(played.loc["learned", "episodes"], 3)
        self.assertIn("return", played.columns)
        with self.assertRaisesRegex(orrery.ConfigError, "takes no decision of a run"):
            orrery.play(bandit, against="jsq")

    def test_fidelity_and_calibrate(self):
        """A table of three products, two of them fitted."""
        folder = self.home / "data/gemm"
        folder.mkdir(parents=True)
        with self.assertRaisesRegex(orrery.ConfigError, "nowhere"):
            orrery.fidelity("nowhere")
        with self.assertRaisesRegex(orrery.ConfigError, "--holdout: expected shapes"):
            orrery.calibrate("a100-sxm4-80gb", self.home, holdout="shape")

    def test_calibrate_a_training_run(self):
        """Two measured steps; what is written lies below a config."""
        table = self.home / "data/training/h100_pytorch.steps.csv"
        table.parent.mkdir(parents=True)
        table.write_text("hidden,intermediate,heads,kv_heads,layers,vocab,sequence,compiled,iter_s\n"
                         "1024,4096,16,16,24,32000,1024,0,0.0768\n2048,8192,32,8,16,128256,2048,0,0.0930\n")
        told = orrery.calibrate("h100-sxm5-80gb", self.home / "data", training=True, out=self.home / "run.json")
        self.assertEqual(told["blocks"][0]["name"], "training")
        self.assertEqual(told["file"], str(self.home / "run.json"))
        written = json.loads((self.home / "run.json").read_text())
        self.assertAlmostEqual(written["machine"]["in_situ"]["kernel"],
                               told["blocks"][0]["constants"]["machine.in_situ.kernel"])

    def test_analyse(self):
        study = orrery.Study(ROOT / "experiments/studies/search_toy.json").run()
        both = orrery.analyse(study, study.store)
        self.assertEqual(len(both["stores"]), 2)
        with self.assertRaisesRegex(orrery.ConfigError, "unknown objective"):
            orrery.analyse(study, objectives=["nothing"])

    def test_best(self):
        study = orrery.Study(ROOT / "experiments/studies/search_toy.json").run()
        told = orrery.best(study, n=3)
        self.assertEqual(told, json.loads(command("best", study.store, "--top", 3, "--json").stdout))

    def test_serve(self):
        orrery.run(config(20), out=self.home / "run")
        with orrery.serve(self.home, read_only=True) as explorer:
            self.assertRegex(explorer.url, r"http://127\.0\.0\.1:\d+/")
            with urllib.request.urlopen(explorer.url, timeout=30) as page:
                self.assertIn("<html", page.read().decode()[:500])
        self.assertIn("closed", repr(explorer))
        with self.assertRaisesRegex(orrery.ConfigError, "can be reached from other machines"):
            orrery.serve(self.home, host="0.0.0.0")
        with self.assertRaisesRegex(orrery.ConfigError, "expected a folder"):
            orrery.serve(self.home / "nowhere")
        for wrong in ({"port": 99999}, {"parallel": 0}):
            with self.assertRaisesRegex(orrery.ConfigError, f"--{next(iter(wrong))}: expected"):
                orrery.serve(self.home, **wrong)

    def test_compare(self):
        result = orrery.run(config(20), out=self.home / "run")
        with self.assertRaises(orrery.ConfigError):
            orrery.compare(result, self.home / "nowhere.csv")
        log = self.home / "log.csv"  # every request takes 1.3 times as long as in the run
        served = result.requests
        log.write_text("arrived_at,prompt_tokens,completion_tokens,first_token_at,last_token_at\n" + "".join(
            f"{one.arrived_s},{one.prompt_tokens},{one.output_tokens},"
            f"{one.arrived_s + 1.3 * (one.first_token_s - one.arrived_s)},"
            f"{one.arrived_s + 1.3 * (one.finished_s - one.arrived_s)}\n" for one in served.itertuples()))
        told = orrery.compare(result, log)["difference"]
        self.assertEqual((told["kind"], told["text"].split(":")[0]), ("device", "device or dtype"))

    def test_report(self):
        result = orrery.run(config(20), out=self.home / "run")
        file = orrery.report(result)
        self.assertEqual(file, self.home / "run/report.html")
        self.assertIn("<html", file.read_text()[:500])
        with self.assertRaises(orrery.ConfigError):
            orrery.report(self.home)
        with self.assertRaises(TypeError):
            orrery.report()
        with contextlib.chdir(self.home):
            self.assertEqual(orrery.report(result, orrery.run(config(30), out="other")), pathlib.Path("compare.html"))
        self.assertFalse((self.home / "other/report.html").exists())


if __name__ == "__main__":
    unittest.main()
