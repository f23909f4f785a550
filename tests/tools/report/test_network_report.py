"""Tests of the report of network runs, on made-up run folders."""

from __future__ import annotations

import unittest

from made_up import RunFolderTest

import pandas as pd


HOSTILE = "</script><b>job</b>"
TIMES = {"mean": 0.002, "p50": 0.002, "p90": 0.002, "p99": 0.003, "max": 0.003}
JOB = {"collective": "all_reduce", "algorithm": "ring", "mode": "chunks", "ranks": 8, "bytes": 67108864, "repetitions": 3,
       "time_s": TIMES, "algbw_bytes_per_s": 3.4e10, "busbw_bytes_per_s": 5.9e10}
LINKS = ("link,from,to,bandwidth_bytes_per_s,carried_bytes,utilisation\n"
         "a->b,a,b,5e+10,1048576,0.95\nb->a,b,a,5e+10,0,0\n")


class NetworkReportTest(RunFolderTest):
    def setUp(self):
        super().setUp()
        self.summary = {"status": "ok", "simulated_s": 0.01, "makespan_s": 0.01, "jobs": {"by_name": {HOSTILE: JOB}},
                        "flows": {"count": 4, "completed": 3, "time_s": TIMES, "slowdown": TIMES}, "rerouted": 7,
                        "without_path": 1}

    def report(self, links: str | None = LINKS) -> tuple[int, str, str]:
        """(exit code, page, stderr)."""
        config = {"system": "network", "machine": {"network": {"topology": {"policy": "fat_tree"},
                                                               "routing": {"policy": "shortest"}}},
                  "workload": {"jobs": [{}], "events": [{}, {}], "traffic": None}}
        self.write(config, self.summary, **({} if links is None else {"links": links}))
        return super().report()

    def test_a_picture_of_the_network_with_what_failed(self):
        from orrery_report import topology

        links = pd.DataFrame({"from": ["h0", "s0", "h1", "s0", "h2"], "to": ["s0", "h0", "s0", "h1", "s0"],
                              "utilisation": [0.2, 0.9, 0.0, 0.0, 0.1]})
        config = {"workload": {"events": [{"link": "s0->h2", "share": 0}, {"link": "h0->s0", "share": 1}, {}, {"link": 3}]}}
        self.assertEqual(topology.failed_cables(config), {("h2", "s0")})
        figure = topology.topology(links, config)
        traces = {trace.get("name"): trace for trace in figure["data"]}
        # Three cables: h0 by its busier direction (90 %, the fifth of five bins to 90 %), h1 unused, h2 in the first bin.
        lines = {name: trace["x"].count(None) for name, trace in traces.items() if trace["mode"] == "lines"}
        self.assertEqual({name.replace("\N{NO-BREAK SPACE}", " "): count for name, count in lines.items()},
                         {"no traffic": 1, "0 % to 18.0 %": 1, "72.0 % to 90.0 %": 1, "failed or degraded": 1})
        self.assertEqual((traces["3 h"]["text"], traces["1 s"]["text"]), (["h0", "h1", "h2"], ["s0"]))
        many = pd.DataFrame({"from": [f"h{i}" for i in range(topology.MOST_CABLES + 1)], "to": "s0", "utilisation": 0.1})
        self.assertIsNone(topology.topology(many, {}))

    def test_shows_jobs_flows_and_links(self):
        code, page, _ = self.report()
        self.assertEqual(code, 0)
        for text in ("fat tree · shortest · 1 job · 2 events", "59.0\N{NO-BREAK SPACE}GB/s", "3 of 4 arrived", "a-&gt;b",
                     "95.0\N{NO-BREAK SPACE}%", "90–100\N{NO-BREAK SPACE}%", "unused"):
            self.assertTrue(text in page, text)  # the page is long
        self.assertIn("&lt;/script&gt;&lt;b&gt;job", page)
        self.assertNotIn(HOSTILE, page)

    def test_says_why_a_run_stalled_and_that_a_formula_knows_no_links(self):
        self.summary |= {"status": "stalled", "reason": "2 messages have no path"}
        code, page, _ = self.report(LINKS.splitlines()[0] + "\n")
        self.assertEqual(code, 0)
        self.assertIn("2 messages have no path", page)
        self.assertIn("no figures for links", page)

    def test_names_the_file_at_fault(self):
        code, _, err = self.report("link,from\na->b,a\n")
        self.assertEqual(code, 2)
        self.assertIn("links.csv: expected columns link,from,to,bandwidth_bytes_per_s", err)


if __name__ == "__main__":
    unittest.main()
