"""Tests of a run beside a request log, on made-up runs and logs."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "python"))

from orrery_report import against, cli  # noqa: E402

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


if __name__ == "__main__":
    unittest.main()
