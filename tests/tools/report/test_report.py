"""Tests of `orrery report` on made-up run folders: what it prints, what the page says, the same bytes twice,
and figures.

    /usr/bin/python3 -m unittest discover -s tests/tools/report
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "tools" / "python" / "orrery_report"
sys.path[:0] = [str(HERE), str(PACKAGE.parent)]

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import synthetic_run  # noqa: E402
from orrery_plot import digest, units  # noqa: E402
from orrery_reference.outputs import declared_outputs  # noqa: E402
from orrery_report import overview  # noqa: E402
from pages import orrery  # noqa: E402
from scratch_run import Folder, run_cli  # noqa: E402

PNGS = ("latency_cdf.png", "over_time.png", "energy_time.png", "requests.png")
BARE = ("count", "tokens", "requests", "ratio", "sequences", "blocks", "iterations", "layers")
HOSTILE = '</script><script>window.hostile = 1</script><img src=x onerror="window.hostile = 2">&amp;\u2028'


def spelled(path: str) -> list[str]:
    """Each path that `a.{b,c}` stands for."""
    match = re.search(r"\{([^}]*)\}", path)
    return [path] if match is None else [
        one for part in match[1].split(",") for one in spelled(path[:match.start()] + part + path[match.end():])]


class CommandLine(Folder):
    def test_folder_runs_as_a_program_and_prints_its_files(self) -> None:
        self.small()
        done = subprocess.run([sys.executable, PACKAGE, self.run_folder], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        files = [self.run_folder / "report.html", *(self.run_folder / "png" / name for name in PNGS)]
        self.assertEqual(done.stdout.splitlines(), [str(file) for file in files])
        for file in files:
            self.assertGreater(file.stat().st_size, 15_000, file)
        self.assertEqual(list(self.run_folder.glob("*.part")), [])

    def test_module_form_gives_the_same_page(self) -> None:
        self.small()
        first = self.html()
        done = subprocess.run([sys.executable, "-m", "orrery_report", self.run_folder, "--png", "no"], check=True,
                              cwd=PACKAGE.parent, capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines(), [str(self.run_folder / "report.html")])
        self.assertEqual((self.run_folder / "report.html").read_text(encoding="utf-8"), first)

    def test_out_and_png_options(self) -> None:
        self.small()
        out, png = self.scratch / "new" / "r.html", self.scratch / "figures"
        code, lines, _ = run_cli(self.run_folder, "--out", out, "--png", png)
        self.assertEqual((code, lines), (0, [str(out), *(str(png / name) for name in PNGS)]))
        self.assertFalse((self.run_folder / "report.html").exists())
        self.assertFalse((self.run_folder / "png").exists())
        code, lines, _ = run_cli(self.run_folder, "--png", "no")
        self.assertEqual((code, lines), (0, [str(self.run_folder / "report.html")]))
        self.assertFalse((self.run_folder / "png").exists())
        code, lines, _ = run_cli(self.run_folder, "--png")
        self.assertEqual((code, len(lines)), (0, 5))

    def test_pngs_are_pictures_of_print_size(self) -> None:
        self.small()
        run_cli(self.run_folder)
        for name in PNGS:
            data = (self.run_folder / "png" / name).read_bytes()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            width, height = (int.from_bytes(data[i:i + 4], "big") for i in (16, 20))
            self.assertGreaterEqual(width, 1500)
            self.assertGreaterEqual(height, 600)

    def test_same_run_same_bytes(self) -> None:
        self.small(requests=6000, replicas=2, samples=3000)
        written = []
        for _ in range(2):
            # Separate processes: no order may come from a hash.
            subprocess.run([sys.executable, PACKAGE, self.run_folder], check=True, capture_output=True)
            written.append({f.name: f.read_bytes() for f in
                            [self.run_folder / "report.html", *(self.run_folder / "png").iterdir()]})
        self.assertEqual(set(written[0]), {"report.html", *PNGS})
        for name, data in written[0].items():
            self.assertTrue(data == written[1][name], f"{name} differs")


class Content(Folder):
    def test_overview_carries_the_key_figures(self) -> None:
        self.small()
        page = self.html()
        for text in ("llama-2-7b (fp16)", "2 × a100-sxm4-80gb", "sarathi (token budget 512, max sequences 128)",
                     "96.8\N{NO-BREAK SPACE}%</b> of the requests attain the SLO (TTFT ≤ 2\N{NO-BREAK SPACE}s"):
            self.assertIn(text, page)

    def test_nothing_is_loaded_from_elsewhere(self) -> None:
        self.small()
        page = self.html()
        packed = re.findall(r'<script type="application/gzip" data-packed="text/javascript">(.*?)</script>', page)
        own = page.replace(packed[0], "")  # all but plotly.js
        self.assertLess(len(own), 1_000_000)
        self.assertLess(len(page), 5_000_000)
        self.assertNotRegex(own, r"https?://")
        self.assertNotRegex(own, r"<(link|script|img|iframe)[^>]+(src|href)=[\"'](?!data:)")
        self.assertEqual([gzip.decompress(base64.b64decode(one)).count(b"plotly.js v") for one in packed], [1])

    def test_infeasible_run(self) -> None:
        synthetic_run.write_infeasible(self.run_folder)
        code, lines, err = run_cli(self.run_folder)
        self.assertEqual((code, lines, err), (0, [str(self.run_folder / "report.html")], ""))
        page = (self.run_folder / "report.html").read_text(encoding="utf-8")
        for text in ("This design is infeasible: weights of llama-2-70b (fp16) do not fit one a100-sxm4-80gb",
                     "137,953,296,384 bytes", "77,309,411,328 bytes", "1.78 times the memory available"):
            self.assertIn(text, page)
        self.assertNotIn("application/gzip", page)

    def test_infeasible_run_without_numbers(self) -> None:
        synthetic_run.write_infeasible(self.run_folder)
        (self.run_folder / "summary.json").write_text('{"status": "infeasible", "needed_bytes": null}')
        self.assertIn("no reason given", self.html())

    def test_null_figures_show_a_dash(self) -> None:
        self.small()
        self.edit_json("summary.json", {"tpot_s": dict.fromkeys(overview.QUANTILES), "energy_per_output_token_j": None})
        page = self.html()
        self.assertIn("p99 –", page)
        self.assertNotIn("None", re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
        self.assertNotIn("nan", page.split("<main>")[1].split("<script")[0].lower())

    def test_no_requests_and_no_samples(self) -> None:
        synthetic_run.write_run(self.run_folder, requests=0, samples=0)
        for name in ("energy.csv", "distributions.csv"):
            head = (self.run_folder / name).read_text().splitlines()[0]
            (self.run_folder / name).write_text(head + "\n")
        code, lines, err = run_cli(self.run_folder)
        self.assertEqual((code, lines, err), (0, [str(self.run_folder / "report.html")], ""))
        page = (self.run_folder / "report.html").read_text(encoding="utf-8")
        for text in ("No samples over time", "No requests:", "No energy ledger", "No latency distributions"):
            self.assertIn(text, page)

    def test_absent_tables_are_named(self) -> None:
        self.small()
        for name in ("requests.csv", "series.csv"):
            (self.run_folder / name).unlink()
        self.assertIn("Not in this run folder: series.csv, requests.csv.", self.html())

    def test_every_request_rejected(self) -> None:
        self.small()
        rows = (self.run_folder / "requests.csv").read_text().splitlines()
        rejected = [f"{i},{i}.5,,,,100,10,,,,rejected:context_exceeded" for i in range(50)]
        (self.run_folder / "requests.csv").write_text("\n".join([rows[0], *rejected]) + "\n")
        names = [trace["name"] for trace in self.figures()["requests"]["data"]]
        self.assertEqual(names, ["rejected:context_exceeded (50)"])
        self.assertEqual(run_cli(self.run_folder)[0], 0)

    def test_results_of_other_systems_are_listed(self) -> None:
        self.small()
        self.edit_json("summary.json", {"bubble": 0.125, "iteration_s": {"mean": 0.25}})
        page = self.html()
        self.assertIn('<th scope="row">bubble</th><td>0.125</td>', page)
        self.assertIn('<th scope="row">iteration_s.mean</th><td>250\N{NO-BREAK SPACE}ms</td>', page)

    def test_zeros_of_features_that_are_off_are_counted_and_not_listed(self) -> None:
        self.small()
        spread = dict.fromkeys(overview.QUANTILES, 0.0)
        self.edit_json("summary.json", {"kv": {"hit_rate": 0, "moved_tokens": 0}, "restores": None, "stall_s": spread,
                                        "wait_s": spread | {"max": 0.5}, "kv_tiers": {"out_bytes": 3 * 2**30, "reused_bytes": 0}})
        page = self.html().split("<h3>Further results</h3>")[1].split("<h3>")[0]
        self.assertEqual(re.findall(r'<th scope="row">([^<]+)</th>', page), ["wait_s", "kv_tiers.out_bytes"])
        self.assertIn("<td>3\N{NO-BREAK SPACE}GiB</td>", page)
        # hit_rate, moved_tokens, restores, reused_bytes and the six of stall_s
        self.assertIn("10 figures are left out here", page)

    def test_many_figures_are_folded(self) -> None:
        self.small()
        self.edit_json("summary.json", {f"figure_{i}": i + 1 for i in range(100)})
        page = self.html()
        self.assertIn("<summary>40 more</summary>", page)
        self.assertIn('<th scope="row">figure_99</th>', page)

    def test_device_time_sums_up_to_the_run_idle_included(self) -> None:
        """energy.csv of a serving run tells no time of idle: it is what the classes leave of 10 s on each of two devices."""
        self.small()
        (self.run_folder / "energy.csv").write_text("device,class,energy_j,busy_s\n" + "".join(
            f"gpu{d},{name},{joules},{busy}\n" for d, of in enumerate(((6, 3.5), (4, 4))) for name, joules, busy in (
                ("ffn_up", 900, of[0]), ("norm", 300, of[1]), ("idle", 800, 0))))
        self.edit_json("summary.json", {"simulated_s": 10.0, "utilisation": {"busy": 0.875}})
        figures = self.figures()
        (time, energy) = figures["classes"]["data"]
        self.assertEqual((time["y"], time["x"]), (["ffn_up", "norm", "idle"], [10.0, 7.5, 2.5]))
        self.assertEqual([text.split(" · ")[1].replace("\N{NO-BREAK SPACE}", " ") for text in time["text"]], ["50.0 %", "37.5 %", "12.5 %"])
        self.assertEqual(energy["x"], [1.8, 0.6, 1.6])  # kJ
        idle = [trace["x"] for trace in figures["devices"]["data"] if trace["name"] == "idle" and "xaxis2" not in trace["xaxis"]]
        self.assertIn([0.5, 2.0], idle)

    def test_a_graph_run_tells_its_model_and_machine_and_its_shares_sum_up(self) -> None:
        """2.47 ms, 97.7 % of it busy; compute and memory draw over all of it, and are no parts of it."""
        self.small()
        for name in ("distributions", "series", "requests"):
            (self.run_folder / f"{name}.csv").unlink()
        (self.run_folder / "energy.csv").write_text("device,class,energy_j,busy_s\n" + "".join(
            f"tpu-v4,{name},{joules},{busy}\n" for name, joules, busy in (
                ("compute", 0.5, 0.0018), ("memory", 0.3, 0.00178), ("idle", 0.2, 0))))
        (self.run_folder / "manifest.json").write_text(json.dumps({"config": {
            "system": "graph", "machine": {"device": {"part": "catalog:tpu-v4", "override": {"cores": 4}}},
            "model": {"builder": {"policy": "bert", "bert": {"layers": 24, "dtype": "bf16"}}}, "workload": {"bind": {"batch": 8}},
            "policies": {"execution": {"policy": "eager"}, "memory": {"policy": "none"}}}}))
        (self.run_folder / "summary.json").write_text(json.dumps({
            "status": "ok", "simulated_s": 0.00247, "requests": {"completed": 1}, "utilisation": {"busy": 0.977},
            "throughput": {"requests_per_s": 400, "samples_per_s": 3200},
            "energy_j": {"total": 1.0, "compute": 0.5, "memory": 0.3, "idle": 0.2, "per_sample": 0.125},
            "memory_bytes": {"peak": 1000, "parameters": 600, "state": 0, "inputs": 100, "activations": 300, "live": 290}}))
        page = self.html().replace("\N{NO-BREAK SPACE}", " ")
        self.assertIn('<p class="headline">bert (bf16) · tpu-v4, changed · batch 8</p>', page)
        bars = {title: re.findall(r"</i>([^<]+) <b>([^<]+)</b> ([\d.]+) %", legend) for title, legend in re.findall(
            r'<h3>([^<]+)</h3><div class="stack">.*?</div><ul class="legend">(.*?)</ul>', page)}
        self.assertEqual(bars, {
            "Where the energy goes": [("compute", "500 mJ", "50.0"), ("memory", "300 mJ", "30.0"), ("idle", "200 mJ", "20.0")],
            "How long the device is busy": [("busy", "2.41 ms", "97.7"), ("idle", "56.8 µs", "2.3")],
            "What fills the memory": [("parameters", "600 B", "60.0"), ("inputs", "100 B", "10.0"), ("activations", "300 B", "30.0")]})
        self.assertNotIn("arrived", page.split("<main>")[1].split("What was simulated")[0])
        self.assertNotIn("<td>none</td>", page)
        figures = self.figures()
        self.assertEqual([trace["y"] for trace in figures["classes"]["data"]], [["compute", "memory", "idle"]])  # energy alone
        self.assertEqual(figures["classes"]["data"][0]["text"][0].replace("\N{NO-BREAK SPACE}", " "), "500 mJ · 50.0 %")

    def test_plots_stay_small(self) -> None:
        self.small(requests=30_000, replicas=3, samples=6000)
        for key, figure in self.figures().items():
            self.assertLess(sum(len(trace.get("x") or ()) for trace in figure.get("data", ())), 20_000, key)

    def test_every_axis_with_numbers_has_a_title(self) -> None:
        self.small(replicas=2)
        for key, figure in self.figures().items():
            for name, axis in figure["layout"].items():
                if "axis" in name and axis.get("showticklabels", True) and axis.get("ticks"):
                    self.assertTrue(axis["title"]["text"], f"{key} {name}")

    def test_kv_percent_axis_needs_a_capacity(self) -> None:
        self.small()
        self.assertIn("yaxis9", self.figures()["time"]["layout"])
        self.edit_json("summary.json", {"memory_bytes": {"peak": 1}})
        self.assertNotIn("yaxis9", self.figures()["time"]["layout"])

    def test_texts_are_escaped(self) -> None:
        self.small(config=synthetic_run.CONFIG | {"note": HOSTILE, "model": {"config": HOSTILE}})
        self.edit_json("manifest.json", {"host": HOSTILE})
        energy = self.run_folder / "energy.csv"
        energy.write_text(energy.read_text().replace("gpu0,rope", '"<a href=""https://example.org"">x</a>",rope'))
        # A table that the report does not know has a tab that is called as its file is.
        (self.run_folder / '" onclick="hostile()" x="<i>.csv').write_text("a,b\n1,2\n3,4\n")
        page = self.html()
        self.assertNotIn('" onclick="hostile', page)
        self.assertNotIn("<i>.csv", page)
        self.assertNotIn("<script>window.hostile", page)
        self.assertNotIn("<img src=x", page)
        devices = {y for trace in self.figures()["devices"]["data"] for y in trace["y"]}
        self.assertIn('&lt;a href="https://example.org"&gt;x&lt;/a&gt;', devices)


class Digest(unittest.TestCase):
    def requests(self, count: int) -> pd.DataFrame:
        arrived = np.arange(count, dtype=float)
        return pd.DataFrame({
            "id": pd.array([str(i) for i in range(count)], dtype="string"), "arrived_s": arrived,
            "first_token_s": arrived + 1, "finished_s": arrived + 2 + (arrived == 77_777) * 500,
            "prompt_tokens": 10.0, "output_tokens": 1 + arrived % 4, "preemptions": 0.0,
            "status": pd.array(["completed"] * count, dtype="string")})

    def test_sample_is_even_keeps_the_slowest_and_ignores_chunking(self) -> None:
        table, found = self.requests(100_000), []
        for size in (100_000, 7001):
            digester = digest.RequestDigester()
            for start in range(0, len(table), size):
                digester.add(table.iloc[start:start + size])
            found.append(digester.finish())
        (group,), (other,) = found[0].groups, found[1].groups
        self.assertEqual(list(group.id), list(other.id))
        self.assertEqual(group.total, 100_000)
        self.assertLessEqual(len(group.id), digest.MAX_COMPLETED + 2 * digest.SLOWEST)
        self.assertIn("77777", group.id)
        even = [int(i) for i in group.id if int(i) % 32 == 0]
        self.assertEqual(even, list(range(0, 100_000, 32)))

    def test_histogram_counts_every_request(self) -> None:
        digester = digest.RequestDigester()
        digester.add(self.requests(10_001))
        output = digester.finish().output
        # Output tokens cycle through 1, 2, 3, 4; one more request has 1.
        self.assertEqual((list(output.edges), list(output.counts)), ([1, 2, 3, 4, 5], [2501, 2500, 2500, 2500]))
        self.assertEqual((output.median, output.log), (2, False))

    def test_buckets_keep_mean_and_extremes(self) -> None:
        count = digest.RAW_POINTS * 2
        table = pd.DataFrame({"time_s": np.arange(count, dtype=float), "replica": "0",
                              **{f: np.ones(count) for f in digest.SERIES_FIELDS}})
        table.loc[1234, "waiting"] = 901.0
        (line,) = digest.digest_series(table).lines
        self.assertEqual(len(line.time_s), digest.BUCKETS)
        self.assertEqual(line.high["waiting"].max(), 901.0)
        # Six samples a bucket: (901 + 5) / 6 = 151.
        self.assertAlmostEqual(line.mean["waiting"].max(), 151.0)

    def test_classes_fall_by_time_and_idle_is_last(self) -> None:
        rows = [("a", "idle", 1.0, 90.0), ("a", "x", 2.0, 1.0), ("b", "y", 3.0, 5.0), ("b", "x", 4.0, 2.0)]
        table = pd.DataFrame(rows, columns=["device", "class", "energy_j", "busy_s"])
        found = digest.digest_energy(table)
        self.assertEqual(list(found.by_class.index), ["y", "x", "idle"])
        self.assertEqual(list(found.by_class["energy_j"]), [3.0, 6.0, 1.0])
        self.assertEqual(found.busy_by_device.loc["b", "idle"], 0.0)


class Units(unittest.TestCase):
    def test_numbers(self) -> None:
        for value, unit, want in ((0.0123, "s", "12.3 ms"), (851.7, "s", "852 s"), (45_000, "s", "12.5 h"),
                                  (0, "s", "0 s"), (68_719_476_736, "B", "64 GiB"), (451_424.2, "J", "451 kJ"),
                                  (1234567, "", "1.23 M"), (98_765, "", "98,765"), (99_999, "", "100 k"), (999_999, "tokens", "1.00 M tokens"),
                                  (2.5e6, "1/s", "2.50 M/s"), (12.5, "1/s", "12.5 1/s"), (2e-9, "s", "2 ns"),
                                  (0.05, "W", "50 mW"), (None, "s", "–"), (float("nan"), "s", "–")):
            self.assertEqual(units.text(value, unit).replace("\N{NO-BREAK SPACE}", " "), want)

    def test_settings_have_no_digits_that_say_nothing(self) -> None:
        for value, unit, want in ((1.8e9, "Hz", "1.8 GHz"), (128 * 2**20, "B", "128 MiB"), (6e12, "B/s", "6 TB/s"),
                                  (4.72e14, "FLOP/s", "472 TFLOP/s"), (8192, "", "8,192"), (0.01, "", "0.01")):
            self.assertEqual(units.setting(value, unit).replace("\N{NO-BREAK SPACE}", " "), want)

    def test_quantities_as_configs_write_them(self) -> None:
        for text, want in (("4 MiB", (2.0**22, "B")), ("1200 GB/s", (1.2e12, "B/s")), ("600 MHz", (6e8, "Hz")),
                           ("2.5 req/s", (2.5, "1/s")), ("3 min", (180.0, "s")), ("os", None), ("64", None),
                           ("catalog:llama-2-7b", None), (5, None)):
            self.assertEqual(units.quantity_of(text), want)

    def test_columns_of_a_store_have_the_units_that_the_study_declares(self) -> None:
        columns = [("clock", "parameter", ""), ("edge", "parameter", ""), ("memory", "parameter", "B"), ("peak", "derived", "FLOP/s"),
                   ("area", "measure", "device.area_mm2"), ("objective_die", "objective", "minimise"), ("limit_die", "limit", "")]
        document = {"parameters": [{"path": "machine.device.override.clock", "values": ["1 GHz", "1200 MHz"]},
                                   {"name": "edge", "path": "a.b", "values": [32, 64]}, "odd"],
                    "objectives": [{"name": "die", "minimise": "area"}, 7]}
        self.assertEqual(units.of_columns(columns, document),
                         {"clock": "Hz", "edge": "", "memory": "B", "peak": "FLOP/s", "area": "mm²", "objective_die": "mm²",
                          "limit_die": ""})

    def test_names_of_figures_say_the_units_that_are_declared(self) -> None:
        """Of every figure of every system's summary.json, with counts, tokens and shares as no unit."""
        systems = json.loads(orrery("list", "system", "--json", cwd=HERE).stdout)
        for system, files in declared_outputs(systems, PACKAGE.parents[2]).items():
            for path, (declared, _) in files.get("summary.json", {}).items():
                if "," in declared or declared == "plans.currency" or path.startswith("suggestion"):
                    continue  # of several units, or in one that the config names
                for one in spelled(path):
                    said = units.unit_of(one)
                    said = {"mm²": "mm2", "tokens/s": "1/s", "tokens": "", "FLOP": ""}.get(said, said)
                    self.assertEqual(said, "" if declared in BARE else declared, f"{system} {one}")

    def test_a_short_logarithmic_axis_has_labels(self) -> None:
        """1, 2 and 5 may all lie outside it, as of the TPOT of one run: 13.2 to 15.8 ms."""
        for low, high in ((0.0132, 0.0158), (0.0057, 0.0204), (0.02, 0.02), (1.0, 1.001), (3.0, 20.0), (1e-6, 1.0)):
            ticks = units.log_ticks(low, high, 1e3)
            self.assertGreaterEqual(sum(0.9 * low <= tick <= 1.1 * high for tick in ticks), 3, (low, high))
            self.assertEqual(ticks, sorted(set(ticks)))
            self.assertLess(len(ticks), 60)
        self.assertEqual([t for t in units.log_ticks(1.0, 50.0, 1e3) if 1 <= t <= 50], [1, 2, 5, 10, 20, 50])

    def test_durations_of_configs(self) -> None:
        for text, want in (("2 s", 2.0), ("100 ms", 0.1), ("1.5us", 1.5e-6), (0.25, 0.25), ("soon", None),
                           ("5 GB", None), ("1.2.3 s", None), (None, None), (True, None)):
            self.assertEqual(units.seconds(text), want)


if __name__ == "__main__":
    unittest.main()
