"""Tests of a run beside a request log, on made-up runs and logs."""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "python"))

from orrery_report import against, against_figures, cli  # noqa: E402

RUN = ("id,arrived_s,admitted_s,first_token_s,finished_s,prompt_tokens,output_tokens,cached_tokens,preemptions,replica,"
       "status\n"
       "1,1,1.5,2,4,100,5,0,0,0,completed\n"
       "0,0,0,1,3,50,3,0,0,0,completed\n"
       "2,2,,,,9000,5,0,0,0,rejected:context_exceeded\n")
# In any order; the same two requests, each with a first token half a second later, and one that got nothing.
LOG = ("request,arrived_at,num_prefill_tokens,num_decode_tokens,queued_at,scheduled_at,first_token_at,last_token_at\n"
       "b,11,100,5,11,11.2,12.5,14.5\n"
       "a,10,50,3,10,10,11.5,13.5\n"
       "c,12,9000,0,12,,,\n")


class AgainstTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "requests.csv").write_text(RUN)
        self.log = self.folder / "log.csv"
        self.log.write_text(LOG)

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([str(self.folder), "--against", *map(str, arguments)])
        return code, out.getvalue(), err.getvalue()

    def test_figures_of_both_and_request_by_request(self):
        code, out, _ = self.call(self.log, "--json")
        self.assertEqual(code, 0)
        result = json.loads(out)
        self.assertEqual((result["log_requests"], result["run_requests"], result["matched"]), (2, 2, 2))
        ttft = result["metrics"]["ttft_s"]
        self.assertEqual(ttft["log"]["mean"], 1.5)
        self.assertEqual(ttft["run"]["mean"], 1.0)
        self.assertAlmostEqual(ttft["difference"]["mean"], -1 / 3)
        self.assertAlmostEqual(ttft["per_request"]["median_error"], 1 / 3)
        # TPOT: 2 s over 2 and over 4 further tokens, in both.
        self.assertEqual(result["metrics"]["tpot_s"]["run"], result["metrics"]["tpot_s"]["log"])
        self.assertEqual(result["metrics"]["tpot_s"]["run"]["p50"], 0.75)
        self.assertAlmostEqual(result["metrics"]["queueing_s"]["log"]["mean"], 0.1)

    def test_as_a_table(self):
        code, out, _ = self.call(self.log)
        self.assertEqual(code, 0)
        self.assertIn("-33.3 %", out)
        self.assertIn("2 match", out)

    def test_the_benchmark_json_of_vllm(self):
        log = self.folder / "log.json"
        log.write_text(json.dumps({"input_lens": [50, 100, 7], "output_lens": [3, 5, 0], "ttfts": [1.0, 1.0, 0.0],
                                   "itls": [[1.0, 1.0], [0.5] * 4, []], "start_times": [5.0, 6.0, 7.0]}))
        code, out, _ = self.call(log, "--json")
        self.assertEqual(code, 0)
        for metric in json.loads(out)["metrics"].values():
            self.assertEqual(metric["per_request"]["within_10_percent"], 1)

    def test_figures_lay_the_run_over_the_log(self):
        ours, theirs = against.of_run(self.folder), against.of_log(self.log)
        curves = {trace["name"]: trace for trace in against_figures.distributions(ours, theirs)["data"]}
        # TTFT: 1 and 1 s in the run, 1.5 and 1.5 s in the log.
        self.assertEqual((curves["TTFT, run"]["x"], curves["TTFT, run"]["y"]), ([1.0, 1.0], [0.5, 1.0]))
        self.assertEqual(curves["TTFT, log"]["x"], [1.5, 1.5])
        marks = {trace["name"]: trace for trace in against_figures.request_by_request(against.matching(ours, theirs))["data"]}
        self.assertEqual((marks["E2E"]["x"], marks["E2E"]["y"]), ([3.5, 3.5], [3.0, 3.0]))
        self.assertEqual(marks["equal"]["x"], marks["equal"]["y"])
        self.assertIsNone(against_figures.request_by_request([]))
        self.call(self.log)
        page = (self.folder / "against.html").read_text()
        self.assertIn('data-figure="distributions"', page)
        self.assertIn('data-figure="requests"', page)

    def test_many_requests_are_picked_evenly(self):
        many = [against.Served(1, 2, 0.0, 0.001 * (i + 1), 1 + 0.001 * i) for i in range(10_000)]
        curve = against_figures.distributions(many, many)["data"][0]
        self.assertEqual((len(curve["x"]), curve["x"][0], curve["x"][-1], curve["y"][-1]), (600, 0.001, 10.0, 1.0))
        self.assertEqual(len(against_figures.request_by_request(list(zip(many, many)))["data"][0]["x"]), 3_000)

    def test_other_lengths_do_not_match(self):
        self.log.write_text(LOG.replace("b,11,100", "b,11,101"))
        self.assertEqual(json.loads(self.call(self.log, "--json")[1])["matched"], 1)

    def test_faults_are_one_line(self):
        for text in ("", "a,b\n1,2\n", "{", '{"ttfts": []}', LOG.replace("12.5", "soon")):
            self.log.write_text(text)
            code, out, err = self.call(self.log)
            self.assertEqual((code, out), (2, ""), text)
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn("expected", err)
        self.assertEqual(self.call(self.folder / "none.csv")[0], 2)

    def test_percentiles_interpolate(self):
        self.assertEqual(against.quantile([0.0, 10.0], 0.9), 9.0)
        self.assertEqual(against.quantile([3.0], 0.99), 3.0)

    def test_the_line_stands_in_table_page_and_json(self):
        """Few requests: no kind is told, and the line says so, everywhere."""
        said = "cannot be told: 2 requests match, it takes 10"
        code, out, _ = self.call(self.log)
        self.assertEqual((code, out.count("\n" + "difference   " + said + "\n")), (0, 1))
        page = self.folder / "against.html"
        self.assertEqual(out.splitlines()[-1], str(page))
        self.assertEqual(page.read_text().count(f"Difference: {said}"), 1)
        self.assertIn("-33.3 %", page.read_text())
        page.unlink()
        self.assertEqual(json.loads(self.call(self.log, "--json")[1])["difference"],
                         {"kind": "unknown", "parts": [], "text": said})
        self.assertFalse(page.exists())  # scripts ask for no page, unless they name one
        other = self.folder / "pages" / "a.html"
        json.loads(self.call(self.log, "--json", "--out", other)[1])
        self.assertIn(said, other.read_text())
        code, _, err = self.call(self.log, "--out", self.folder)
        self.assertEqual((code, err.count("expected a file to write, got a folder")), (2, 1))


class KindTest(unittest.TestCase):
    """What kind of difference it is, on logs made from one run: scaled, or with noise."""

    def run_of(self, count: int = 400) -> list[against.Served]:
        draw = random.Random(7)
        made = []
        for i in range(count):
            output = max(2, int(draw.lognormvariate(4.5, 0.8)))
            ttft, tpot = draw.lognormvariate(-3, 0.8), draw.lognormvariate(-4, 0.1)
            made.append(against.Served(512, output, float(i), ttft, ttft + (output - 1) * tpot, 0.4 * ttft))
        return made

    def log_of(self, run, ttft=1.0, tpot=1.0, queueing=1.0, slow=0.0) -> list[against.Served]:
        """The run with its times scaled; a share `slow` of the requests, those of the longest E2E, takes thrice as long
        after its first token."""
        least = against.quantile(sorted(one.e2e_s for one in run), 1 - slow)
        log = []
        for one in run:
            after = (one.e2e_s - one.ttft_s) * tpot * (3 if slow and one.e2e_s >= least else 1)
            log.append(against.Served(one.prompt, one.output, one.arrived_s, one.ttft_s * ttft, one.ttft_s * ttft + after,
                                      None if queueing is None else one.queueing_s * queueing))
        return log

    def told(self, log, run=None) -> dict:
        return against.compare(run or self.run_of(len(log)), log)["difference"]

    def test_all_by_one_factor_is_the_device(self):
        for factor in (1.3, 0.5, 3.0, 1.12):
            told = self.told(self.log_of(self.run_of(), factor, factor, factor))
            self.assertEqual((told["kind"], told["parts"]), ("device", ["device"]), told)
            self.assertTrue(told["text"].startswith("device or dtype: "), told)
            self.assertIn(f"{1 / factor:.2f} times", told["text"])

    def test_ttft_alone_is_queue_or_prefill(self):
        for queueing, cause in ((None, "queue or prefill"), (1.0, "prefill"), (2.25, "queue")):
            # 0.4 of TTFT is queueing: by 2.25 it grows by 0.5 of TTFT, which is all that TTFT grows by.
            told = self.told(self.log_of(self.run_of(), ttft=1.5, queueing=queueing))
            self.assertEqual((told["kind"], told["text"].split(":")[0]), ("ttft", cause), told)
            self.assertIn("P50 of TTFT is 0.67 times", told["text"])

    def test_tpot_alone_is_decode_steps(self):
        told = self.told(self.log_of(self.run_of(), tpot=1.3))
        self.assertEqual(told["kind"], "decode", told)

    def test_the_tail_alone_is_preemption(self):
        for count in (60, 200, 2000):
            told = self.told(self.log_of(self.run_of(count), slow=0.02))
            self.assertEqual(told["kind"], "tail", (count, told))
            self.assertTrue(told["text"].startswith("preemption: P99 of "), told)
            self.assertIn("its P50 1.00", told["text"])

    def test_a_tail_of_ttft_alone_waits(self):
        run = self.run_of()
        worst = sorted(one.ttft_s for one in run)[-8]
        log = [against.Served(one.prompt, one.output, one.arrived_s, one.ttft_s + more, one.e2e_s + more)
               for one in run if (more := 2 * one.ttft_s if one.ttft_s >= worst else 0) is not None]
        told = self.told(log, run)
        self.assertEqual((told["kind"], told["text"][:33]), ("ttft", "queue or prefill: P99 of TTFT is "), told)

    def test_none_to_speak_of(self):
        self.assertEqual(self.told(self.log_of(self.run_of())),
                         {"kind": "none", "parts": [], "text": against.NONE})
        self.assertEqual(self.told(self.log_of(self.run_of(), 1.05, 1.05))["kind"], "none")

    def test_several_at_once_are_mixed_and_named(self):
        run = self.run_of()
        for scales, parts in ((dict(ttft=1.3, tpot=1.3, slow=0.02), ["device", "tail"]),
                              (dict(ttft=1.5, slow=0.02), ["ttft", "tail"]),
                              (dict(ttft=2.6, tpot=1.3), ["device", "ttft"]),
                              (dict(ttft=1.5, tpot=0.7), ["decode", "ttft"])):
            told = self.told(self.log_of(run, **scales))
            self.assertEqual((told["kind"], told["parts"]), ("mixed", parts), told)
            self.assertTrue(told["text"].startswith("mixed: "), told)
            for part in parts:
                cause = "prefill" if part == "ttft" else against.CAUSES[part]
                self.assertIn(f"{cause} (", told["text"])

    def test_noise_is_no_difference(self):
        """Jitter of every request, and times to first token that have nothing to do with each other."""
        for count in (40, 400, 4000):
            for seed in range(20):
                draw, run = random.Random(seed), self.run_of(count)
                log = []
                for one in run:
                    ttft = one.ttft_s * math.exp(draw.gauss(0, 0.1))
                    log.append(against.Served(one.prompt, one.output, one.arrived_s, ttft,
                                              ttft + (one.e2e_s - one.ttft_s) * math.exp(draw.gauss(0, 0.1))))
                self.assertEqual(self.told(log, run)["kind"], "none", (count, seed))
                first = [one.ttft_s for one in run]
                draw.shuffle(first)
                log = [against.Served(one.prompt, one.output, one.arrived_s, ttft, ttft + one.e2e_s - one.ttft_s)
                       for one, ttft in zip(run, first)]
                self.assertEqual(self.told(log, run)["kind"], "none", (count, seed, "shuffled"))

    def test_the_same_of_the_files(self):
        """A run folder and a CSV log, through the command line."""
        with tempfile.TemporaryDirectory() as home:
            folder, run = Path(home), self.run_of(50)
            (folder / "requests.csv").write_text(RUN.splitlines()[0] + "\n" + "".join(
                f"{i},{one.arrived_s!r},{one.arrived_s + one.queueing_s!r},{one.arrived_s + one.ttft_s!r},"
                f"{one.arrived_s + one.e2e_s!r},512,{one.output},0,0,0,completed\n" for i, one in enumerate(run)))
            log = self.log_of(run, 1.3, 1.3, 1.3)
            (folder / "log.csv").write_text(LOG.splitlines()[0] + "\n" + "".join(
                f"{i},{one.arrived_s!r},512,{one.output},,{one.arrived_s + one.queueing_s!r},"
                f"{one.arrived_s + one.ttft_s!r},{one.arrived_s + one.e2e_s!r}\n" for i, one in enumerate(log)))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(cli.main([home, "--against", str(folder / "log.csv")]), 0)
            self.assertIn("\ndifference   device or dtype: TTFT, TPOT and E2E are all about 0.77 times the log's\n",
                          out.getvalue())


if __name__ == "__main__":
    unittest.main()
