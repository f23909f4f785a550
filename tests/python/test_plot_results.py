"""orrery.plot over what runs and studies write: results, folders, stores, lists of them, and what cannot be drawn."""

import json
import pathlib
import tempfile
import unittest

import numpy as np
import orrery
import pandas as pd
from orrery import plot
from orrery_plot import sources, stores
from orrery_plot.style import PlotError
from support import FIRST_LIGHT, ROOT, command, config, lines_of, texts_of

TOY = ROOT / "experiments/studies/search_toy.json"
SWEEP = ROOT / "experiments/studies/sweep_serving.json"
FAT_TREE = ROOT / "experiments/studies/shared_fat_tree.json"


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        base = config(200, slo={"ttft": "1 s", "tbt": "100 ms"}, run={"timeline": {"enabled": True}})
        cls.slow = orrery.run(base, out=cls.folder / "slow")
        cls.fast = orrery.run(base, {"workload.generator.arrivals.poisson.rate": "8 1/s"}, out=cls.folder / "fast")
        cls.too_large = orrery.run(config(10, model={"config": "catalog:llama-2-70b", "dtype": "fp16"}))

    def test_latency_of_a_result_and_of_its_folder(self):
        for thing in (self.slow, self.folder / "slow", str(self.folder / "slow")):
            figure = plot.latency(thing)
            table = self.slow.table("distributions")
            drawn = {line.get_label(): line for line in lines_of(figure.axes[0], 3)}
            self.assertEqual(set(drawn), {"TTFT", "TBT", "TPOT", "E2E", "Queueing"})
            np.testing.assert_allclose(drawn["TTFT"].get_xdata(), table[table["metric"] == "ttft"]["value_s"])
            self.assertEqual(sorted(t.get_text().split()[1] for t in figure.axes[0].texts), ["TBT", "TTFT"])

    def test_labels_say_in_what_configs_differ(self):
        self.assertEqual([line.get_label() for line in lines_of(plot.latency([self.slow, self.fast]).axes[0], 3)],
                         ["rate 4 1/s", "rate 8 1/s"])
        self.assertEqual(texts_of(plot.series(self.slow, self.fast, labels=["a", "b"]).legends[0]), ["a", "b"])
        with self.assertRaisesRegex(PlotError, "expected 2 labels, got 1"):
            plot.latency(self.slow, self.fast, labels=["a"])
        self.assertEqual(sources.unique(["a", "b", "a"]), ["a", "b", "a (2)"])

    def test_attainment_and_throughput_over_the_rate(self):
        line = plot.slo(self.fast, self.slow).axes[0].containers[0].lines[0]
        self.assertEqual(list(line.get_ydata()), [100 * r["slo.attainment"] for r in (self.slow, self.fast)])
        arrived = self.slow.requests["arrived_s"]
        self.assertAlmostEqual(line.get_xdata()[0], 199 / (arrived.max() - arrived.min()))
        curve = plot.throughput_latency(self.slow, self.fast, latency="e2e_s.p50").axes[0].lines[0]
        self.assertEqual(list(curve.get_xdata()), [r["throughput.output_tokens_per_s"] for r in (self.slow, self.fast)])
        with self.assertRaisesRegex(PlotError, "no summary has a figure nothing.p50"):
            plot.throughput_latency(self.slow, latency="nothing.p50")

    def test_series_and_energy(self):
        figure = plot.series(self.slow, fields="kv_used_bytes")
        self.assertEqual(max(figure.axes[0].lines[0].get_ydata()), self.slow.series["kv_used_bytes"].max() / 2**30)
        bars = plot.breakdown(self.slow, what="time").axes[0]
        # Busy and idle times of one device are the run.
        self.assertAlmostEqual(sum(bar.get_width() for bar in bars.patches), self.slow.summary["simulated_s"], places=4)
        self.assertEqual(len(plot.breakdown(self.slow, self.fast).axes[0].containers[0]), 2)

    def test_gantt_of_a_result_and_of_its_folder(self):
        for thing in (self.slow, self.slow.timeline, self.folder / "slow"):
            axes = plot.gantt(thing, tracks="iterations", end_s=5).axes[0]
            boxes = sum(len(c.get_paths()) for c in axes.collections)
            slices = self.slow.timeline
            own = slices[(slices["track"] == "iterations") & (slices["start_s"] <= 5) & ~slices["instant"]]
            self.assertEqual(boxes, len(own))

    def test_a_design_that_does_not_fit_is_told(self):
        for draw in (plot.latency, plot.series, plot.breakdown, plot.slo, plot.gantt, plot.throughput_latency,
                     plot.topology):
            with self.assertRaisesRegex(PlotError, "infeasible"):
                draw(self.too_large)

    def test_what_is_no_run(self):
        with self.assertRaisesRegex(PlotError, "no summary.json"):
            plot.latency(self.folder)
        with self.assertRaisesRegex(PlotError, "no result was given"):
            plot.latency()
        with self.assertRaisesRegex(PlotError, "expected a result or the folder of a run, got int"):
            plot.series(3)
        with self.assertRaisesRegex(PlotError, "no links.csv|no table 'links'"):
            plot.topology(self.slow)
        with self.assertRaisesRegex(PlotError, "no table 'series'; it has none"):
            plot.series(orrery.run(config(5), tables=False))

    def test_topology_of_a_network_run(self):
        run = orrery.run(FAT_TREE)
        self.assertEqual(len(plot.topology(run).axes[0].collections[0].get_segments()),
                         48)  # 16 hosts, 16 up, 16 to cores

    def test_goodput_of_jobs(self):
        job = {"system": "training_job", "job": {"nodes": 4, "copies": 4, "step": "10 s", "duration": "2000 s"},
               "failures": {"repair": "500 s", "trace": str(self.folder / "failures.csv")}}
        (self.folder / "failures.csv").write_text("time_s,node\n505,1\n", encoding="utf-8")
        dropped = orrery.run(job, {"policies.recovery.policy": "drop_replica"})
        above, below = plot.goodput(orrery.run(job), dropped, labels=["restart", "drop"]).axes
        # At the end 150 of 200 steps' time stayed less what the cut step took; three quarters of the speed for 500 s.
        restart, drop = (line.get_ydata()[-1] for line in above.lines[:2])
        self.assertLess(restart, drop)
        self.assertAlmostEqual(drop, 100 * dropped.summary["ettr"]["mean"], places=6)
        self.assertIn(75.0, list(below.lines[1].get_ydata()))
        self.assertIn(0.0, list(below.lines[0].get_ydata()))
        self.assertEqual(list(above.lines[2].get_xdata()), [505])
        with self.assertRaisesRegex(PlotError, "no table 'events'"):
            plot.goodput(orrery.run({"system": "progress", "progress": {"steps": 10}}))

    def test_decisions_over_time(self):
        two = {"system": "serving", "machine": {"devices": [{"part": "a100-sxm4-80gb", "count": 2}]},
               "model": {"config": "catalog:llama-2-7b"},
               "workload": {"generator": {"requests": 40, "arrivals": {"policy": "fixed", "fixed": {"rate": "4 1/s"}},
                                          "lengths": {"policy": "fixed", "fixed": {"prompt": 100, "output": 10}}}},
               "cluster": {"replicas": [{"count": 2, "tensor_parallel": 1}]}}
        turns = orrery.run(two)
        shut = orrery.run(two, {"policies.admission": {"policy": "token_bucket", "token_bucket": {"rate": 2, "burst": 1}}})
        above, below = plot.decisions(turns, shut, labels=["all", "half"]).axes
        # In turns: each replica has half of all requests, whatever the windows.
        requests = turns.requests
        self.assertEqual(requests["replica"].value_counts().to_dict(), {0: 20, 1: 20})
        first, second = above.containers
        self.assertEqual([first.get_label(), second.get_label()], ["0 a100-sxm4-80gb", "1 a100-sxm4-80gb"])
        for one, other in zip(first, second):
            # One request a quarter of a second from 0.25 s on, at most one in each of 48 windows of 10 s.
            self.assertIn(round((one.get_height() + other.get_height()) * 10 / 48, 9), (0, 1))
            self.assertEqual(other.get_y(), one.get_height())
        away = (shut.requests["status"] != "completed").sum()
        self.assertEqual(away, 20)  # four a second come, two may
        self.assertEqual(below.containers[-1].get_label(), "rejected")
        self.assertEqual(sum(bar.get_height() > 0 for bar in below.containers[-1]), away)  # one a window at most
        with self.assertRaisesRegex(PlotError, "no table 'requests'"):
            plot.decisions(orrery.run({"system": "progress", "progress": {"steps": 10}}))

    def test_calls_of_an_iteration(self):
        ppo = ROOT / "experiments/studies/rlhf_ppo.json"
        one = orrery.run(ppo, {"plans.choose": "one_plan", "run.iterations": 2})
        own = orrery.run(ppo, {"plans.budget": 200, "run.iterations": 2})
        above, below = plot.rlhf(one, own).axes
        self.assertEqual(len(above.patches), 6)  # nothing moves
        self.assertEqual({(bar.get_y(), bar.get_height()) for bar in above.patches}, {(0, 8)})
        calls = own.table("calls")
        self.assertEqual(len(below.patches), int((calls["iteration"] == 0).sum()))
        ends = max(bar.get_x() + bar.get_width() for bar in above.patches)
        self.assertAlmostEqual(ends, one.summary["first_iteration_s"], places=6)
        with self.assertRaisesRegex(PlotError, "expected at least one iteration, got 0"):
            plot.rlhf(one, iterations=0)

    def test_memory_map_of_a_plan(self):
        buffers, plan = self.folder / "buffers.csv", self.folder / "plan.csv"
        buffers.write_text("id,lower,upper,size\na,0,4,100\nb,2,6,50\nc,5,9,100\n", encoding="utf-8")
        self.assertEqual(command("plan", buffers, "--out", plan, "--force").returncode, 0)
        self.assertIn("3 blocks · peak 150", plot.memory_map(plan).axes[0].get_title(loc="left"))
        with self.assertRaisesRegex(PlotError, "orrery plan FILE --out PLAN"):
            plot.memory_map(self.folder / "none.csv")

    def test_claims_from_a_file_and_from_dicts(self):
        rows = [{"system": "S", "claim": "c", "expected": [0, 1], "simulated": 0.5, "holds": True}]
        file = self.folder / "claims.json"
        file.write_text(json.dumps({"claims": rows}), encoding="utf-8")
        for thing in (file, {"claims": rows}, rows, pd.DataFrame(rows)):
            self.assertEqual(plot.claims(thing).axes[0].texts[0].get_text(), "S: 1 of 1 claims hold")


class Studies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.toy, cls.grid, cls.serving = (cls.folder / f"{name}.sqlite" for name in ("toy", "grid", "serving"))
        small = ["--set", "base.workload.limit=60", "--set", "base.workload.generator.requests=60"]
        for arguments in (["search", TOY, "--out", cls.toy, "--set", "search.budget=40"],
                          ["sweep", TOY, "--out", cls.grid],
                          ["sweep", SWEEP, "--out", cls.serving, *small[:2]]):
            done = command(*arguments, "--quiet")
            assert done.returncode == 0, done.stderr

    def points(self, store):
        points = stores.read(store)[0]
        return points[points["status"] == "ok"]

    def test_pareto_shows_every_point_once(self):
        axes = plot.pareto(self.toy).axes[0]
        drawn = np.concatenate([c.get_offsets() for c in axes.collections])
        expected = self.points(self.toy)[["objective_f1", "objective_f2"]].to_numpy()
        np.testing.assert_allclose(sorted(map(tuple, drawn)), sorted(map(tuple, expected)))
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), ("f1, minimised", "f2, minimised"))

    def test_columns_in_the_place_of_objectives(self):
        axes = plot.pareto(self.serving, x="ttft", y="speed").axes[0]
        self.assertEqual(axes.get_xlabel(), "P99 TTFT (s)")
        self.assertIn("output throughput (tokens/s)", axes.get_ylabel().replace("\n", " "))
        with self.assertRaisesRegex(PlotError, "no column 'tfft'"):
            plot.pareto(self.serving, x="tfft")

    def test_hypervolume_of_two_ends_at_the_joint_front(self):
        figure = plot.hypervolume(self.toy, self.grid, labels=["search", "grid"])
        curves = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
        self.assertEqual({name: len(curve) for name, curve in curves.items()},
                         {"search (nsga2)": 40, "grid (sweep)": 63})
        for curve in curves.values():
            self.assertTrue((np.diff(curve[~np.isnan(curve)]) >= 0).all())
            self.assertLessEqual(curve[-1], 100)

    def test_parallel_has_a_line_a_feasible_point(self):
        axes = plot.parallel(self.toy).axes[0]
        feasible = (self.points(self.toy)["violation"] == 0).sum()
        lines = [line for line in axes.lines if len(line.get_xdata()) == 4]
        self.assertEqual(len(lines), feasible)
        places = sorted(line.get_ydata()[0] for line in lines)  # x is in [0, 5]
        points = self.points(self.toy)
        np.testing.assert_allclose(places, sorted(points[points["violation"] == 0]["x"] / 5))

    def test_parameters_of_texts_and_numbers_have_places(self):
        store = stores.load([self.serving])["stores"][0]
        device, policy, budget, rate = store["parameters"]
        self.assertEqual(len(device["ticks"]), 3)
        self.assertEqual([tick for tick, _ in budget["ticks"]], [0.125, 0.375, 0.625, 0.875])
        self.assertEqual([label for _, label in budget["ticks"]], ["256", "512", "1024", "2048"])
        self.assertTrue(any(trial["units"][2] is None for trial in store["trials"]))  # vLLM V0 has no budget

    def test_curves_of_a_study_by_what_differs(self):
        figure = plot.slo(self.serving, target=0.99)
        self.assertEqual(len(figure.axes), 3)  # a panel a device: all lines in one could not be told apart
        points = self.points(self.serving)
        own = points[(points["device"] == "catalog:l40s") & (points["policy"] == "orca")].sort_values("rate")
        panel = next(axes for axes in figure.axes if axes.get_title(loc="left") == "l40s")
        np.testing.assert_allclose(panel.containers[-1].lines[0].get_ydata(orig=False), 100 * own["attained"])
        curves = plot.throughput_latency(self.serving).axes
        self.assertEqual(curves[0].get_ylabel(), "P99 TTFT (s)")
        with self.assertRaisesRegex(PlotError, "measures no mfu; it measures ttft"):
            plot.throughput_latency(self.serving, latency="mfu")

    def test_a_study_is_drawn_as_its_store_is(self):
        study = orrery.Study.load(self.toy)
        for draw in (plot.pareto, plot.hypervolume, plot.parallel):
            ours, theirs = ([np.asarray(line.get_ydata(), dtype=float) for axes in draw(thing).axes for line in axes.lines]
                            for thing in (study, self.toy))
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other)
        self.assertEqual(len(plot.throughput_latency(orrery.Study.load(self.serving)).axes), 3)

    def test_objects_of_the_package(self):
        machine, graph = orrery.Machine("a100-sxm4-80gb"), orrery.graph("bert", batch=8, tokens=128)
        kernels = machine.kernels(graph)
        axes = plot.roofline(machine, graph).axes[0]
        self.assertIn(f"{len(kernels)} kernels", axes.get_title(loc="left"))
        roof = axes.lines[0]
        self.assertEqual(max(roof.get_ydata()) * 1e12, machine.peak_flops["fp16"])  # the only format that it computes in
        self.assertEqual(len(axes.lines), 1)
        claims = orrery.reproduce("ring_all_reduce_closed_form")
        shown = [text.get_text() for text in plot.claims(claims).axes[0].texts]
        self.assertIn(f"{claims.held} of {len(claims)} claims hold", shown[0])

    def test_what_is_no_study(self):
        for thing in (self.folder / "none.sqlite", FIRST_LIGHT, self.folder):
            with self.assertRaisesRegex(PlotError, "expected a study or the store of one"):
                plot.pareto(thing)
        with self.assertRaisesRegex(PlotError, "no study was given"):
            plot.hypervolume()


if __name__ == "__main__":
    unittest.main()
