"""The explorer in a headless browser: the table, a run's page, the form and its faults, a run from it, a growing study."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import unittest
from pathlib import Path

import support
from support import SMALL, ServedTest, made_up

import browser  # noqa: E402
from test_folder import sweep  # noqa: E402

HOSTILE = "<b>bold<img src=x onerror='window.hostile=1'>"
FIELD = '#usual .field[data-pointer="{}"]'


class Pages(ServedTest, browser.TestCase):
    @classmethod
    def fill(cls, folder: Path) -> None:
        made_up(folder / "slow", ttft=2.0)
        made_up(folder / "fast", ttft=0.01, policy="orca")
        made_up(folder / "deep" / "middle", ttft=0.5, policy="orca")
        made_up(folder / HOSTILE, ttft=1.0, reason=HOSTILE)
        (folder / "cut").mkdir()
        (folder / "cut" / "summary.json").write_text("{")
        (folder / "small.json").write_text(json.dumps(SMALL))
        done = support.orrery("run", folder / "small.json", "--out", folder / "base", "--quiet")
        assert done.returncode == 0, done.stderr
        support.orrery("run", folder / "small.json", "--set", "run.seed=2", "--out", folder / "again", "--quiet")
        sweep(folder)

    def visit(self, path: str, ready: str) -> None:
        """Opens a page and waits until a script says that it is drawn."""
        self.page.open(self.server.url + path)
        self.page.wait(ready, limit_s=20)

    def at_rest(self) -> None:
        """No console error, nothing asked of any other place."""
        self.quiet(self.server.url)

    def names(self) -> list[str]:
        return self.page.run("return [...document.querySelectorAll('tbody tr')].map((row) => row.dataset.path)")

    def test_table_sorts_filters_and_compares(self):
        self.server.until("index?since=0", lambda a: not a["reading"])
        self.visit("/", "return document.querySelectorAll('tbody tr').length >= 6")
        self.page.click('th[data-sort="ttft_p99_s"]')
        known = ["fast", "base", "deep/middle", HOSTILE, "slow", "cut"]  # what has no figure comes last
        order = [name for name in self.names() if name in known]
        self.assertEqual(sorted(order, key=known.index)[2:], order[2:])
        self.assertEqual(order[-1], "cut")
        self.page.click('th[data-sort="ttft_p99_s"]')
        self.assertEqual(self.names()[0], "slow")
        self.assertIn("sort=ttft_p99_s", self.page.run("return location.hash"))
        self.page.click("#search")
        self.page.type("orca ttft<0.1")
        self.assertEqual(self.names(), ["fast"])
        self.page.run("document.querySelector('#search').value = ''; document.querySelector('#search').dispatchEvent(new Event('input'))")
        self.page.run("""const s = document.querySelector('[data-choice="policy"]'); s.value = 'orca'; s.dispatchEvent(new Event('change'))""")
        self.assertEqual(self.names(), ["deep/middle", "fast"])
        for name in ("fast", "deep/middle"):
            self.page.click(f'tr[data-path="{name}"] input')
        self.page.click("#go-compare")
        self.page.wait("return document.querySelectorAll('#first tbody tr').length > 3", limit_s=20)
        self.assertEqual(self.page.run("return [...document.querySelectorAll('#first [data-path=\"ttft_s.p99\"] td')].map(e => e.innerText)"),
                         ["ttft_s.p99", "10 ms", "500 ms x 50"])
        self.assertIsNone(self.page.run("return window.hostile || null"))
        self.assertEqual(self.page.run("return document.querySelector('iframe').src"),
                         self.server.url + "/report/?of=fast&of=deep%2Fmiddle")
        self.at_rest()
        self.fits()

    def test_reasons_of_broken_runs_show(self):
        self.visit("/#status=broken", "return document.querySelectorAll('tbody tr').length == 1")
        self.assertIn("manifest.json: not there", self.page.run("return document.querySelector('tbody tr').innerText"))
        self.at_rest()

    def test_run_page(self):
        self.visit("/run/base", "return document.querySelector('iframe') !== null")
        self.page.click("#files")
        self.page.wait("return document.querySelectorAll('#drawer tr').length >= 7")
        self.assertIn("ui.perfetto.dev", self.page.run("return document.querySelector('#drawer').innerText"))
        # The report is of another origin: a page in it cannot reach ours.
        self.assertTrue(self.page.run("return document.querySelector('iframe').contentDocument === null"))
        self.visit("/report/base#latency", "return document.querySelectorAll('.js-plotly-plot').length > 0")
        self.assertEqual(self.page.run("return window.origin"), "null")
        self.at_rest()

    def test_timeline_goes_to_perfetto(self):
        """By the viewer's protocol: PING until it says PONG, then the file, to nobody else. A frame stands for its window."""
        self.visit("/run/base", "return document.querySelector('iframe') !== null")
        self.page.click("#files")
        self.page.wait("return document.querySelector('#perfetto') !== null")
        self.page.run("""
            const frame = document.createElement('iframe');
            document.body.append(frame);
            window.told = [];
            window.open = (url) => { window.opened = url; return frame.contentWindow; };
            frame.contentWindow.postMessage = (what, where) => window.told.push([what, where]);
            window.answer = (data, origin, source = frame.contentWindow) =>
              window.dispatchEvent(new MessageEvent('message', {data, origin, source}));
        """)
        self.page.run("document.querySelector('#perfetto').click()")  # the frame lies over it
        self.page.wait("return window.told.length >= 2")
        self.assertEqual(self.page.run("return window.opened"), "https://ui.perfetto.dev")
        self.assertEqual(self.page.run("return window.told[0]"), ["PING", "https://ui.perfetto.dev"])
        # Who is another page, or another window, gets nothing.
        self.page.run("window.answer('PONG', 'https://elsewhere.example'); window.answer('PONG', 'https://ui.perfetto.dev', window)")
        self.page.wait("return window.told.length >= 4")
        self.assertTrue(self.page.run("return window.told.every(([what]) => what === 'PING')"))
        self.page.run("window.answer('PONG', 'https://ui.perfetto.dev')")
        self.page.wait("return window.told.at(-1)[0].perfetto !== undefined")
        what = self.page.run("""const [what, where] = window.told.at(-1);
                                return [what.perfetto.title, what.perfetto.fileName, what.perfetto.buffer.byteLength, where]""")
        size = (self.folder / "base" / "timeline.pftrace").stat().st_size
        self.assertEqual(what, ["base", "timeline.pftrace", size, "https://ui.perfetto.dev"])
        told = self.page.run("return window.told.length")
        self.page.run("window.answer('PONG', 'https://ui.perfetto.dev')")
        self.assertEqual(self.page.run("return window.told.length"), told)
        self.assertEqual(self.page.run("return document.querySelector('#perfetto-told').textContent"), "")
        self.at_rest()

    def test_reports_of_studies_and_of_several(self):
        for path in ("/report/parabola.sqlite#front", "/report/?of=base&of=again#latency"):
            self.visit(path, "return document.querySelectorAll('.js-plotly-plot').length > 0")
            self.at_rest()
        self.visit("/study/parabola.sqlite", "return document.querySelector('iframe').src.endsWith('/report/parabola.sqlite')")
        self.assertFalse(self.page.run("return document.querySelector('iframe').hidden"))
        self.at_rest()

    def test_any_figure_against_any_over_all_runs(self):
        self.server.until("index?since=0", lambda a: not a["reading"])
        self.visit("/", "return document.querySelector('a[href=\"/plot\"]') !== null")
        self.page.click('a[href="/plot"]')
        self.page.wait("return document.querySelector('iframe[title=\"All runs\"]') !== null")
        self.visit("/report/?all=1", "return document.querySelectorAll('.js-plotly-plot').length > 0")
        # Every run that can be read is a point, whatever its name holds.
        self.page.wait("return document.querySelector('[data-explorer] .js-plotly-plot').data.reduce((n, t) => n + t.x.length, 0) >= 6")
        self.assertIsNone(self.page.run("return window.hostile === undefined ? null : 1"))
        self.at_rest()

    def test_a_wrong_value_shows_its_fault_and_a_right_one_runs(self):
        self.visit("/new?from=run:base", "return document.querySelectorAll('.field').length > 5")
        rate = FIELD.format("/machine/devices/0/count")
        self.page.click(rate + " input")
        self.page.run("document.activeElement.select()")
        self.page.type("0")
        self.page.wait(f"return document.querySelector('{rate} .fault').textContent.includes('expected')")
        self.assertTrue(self.page.run("return document.querySelector('#go').disabled"))
        self.page.run("document.activeElement.select()")
        self.page.type("1")
        self.page.wait("return !document.querySelector('.field.faulty')")
        policy = FIELD.format("/policies/batching/policy")
        self.page.run("const s = document.querySelector(arguments[0]); s.value = '\"vllm_v1\"'; s.dispatchEvent(new Event('change', {bubbles: true}))",
                      policy + " select")
        self.page.click("#find")
        self.page.type("max_num_batched")
        self.page.wait("return document.querySelectorAll('#found .field').length > 0")
        self.page.click('#found .field[data-pointer="/policies/batching/vllm_v1/max_num_batched_tokens"] input')
        self.page.type("512")
        self.page.wait("return document.querySelectorAll('#changes li[data-changed]').length === 2")
        self.page.run("document.querySelector('#name').value = 'from-form'")
        self.page.wait("return !document.querySelector('#go').disabled")
        self.page.click("#go")
        self.page.wait("return location.pathname === '/compare' && document.querySelectorAll('#config tbody tr').length > 0", limit_s=30)
        self.assertIn("vllm_v1", self.page.run("return document.querySelector('#config').innerText"))
        config = json.loads((self.folder / "runs/from-form/manifest.json").read_text())["config"]
        self.assertEqual(config["policies"]["batching"]["vllm_v1"]["max_num_batched_tokens"], 512)
        self.visit("/#q=from-form", "return document.querySelectorAll('tbody tr').length === 1")
        self.at_rest()

    def test_a_study_is_run_from_the_list(self):
        self.visit("/new", "return document.querySelectorAll('#starts a.all').length > 0")
        self.page.click("#pick")
        self.page.type("parabola")
        self.page.click("#starts a.all")
        self.page.wait("return location.pathname === '/sweep' && document.querySelector('#points')?.textContent === '30 points'", limit_s=20)
        self.assertEqual(self.page.run("return document.querySelector('#mode').value"), "sweep")
        self.page.click("#set")
        self.page.type("base.workload.functoin=srn")
        self.page.wait("return document.querySelector('#faults').textContent.includes('did you mean')", limit_s=20)
        self.assertTrue(self.page.run("return document.querySelector('#go').disabled"))
        self.page.run("const s = document.querySelector('#set'); s.value = 'base.workload.function=srn'; s.dispatchEvent(new Event('input'))")
        self.page.run("document.querySelector('#name').value = 'from-page'")
        self.page.wait("return !document.querySelector('#go').disabled", limit_s=20)
        self.page.click("#go")
        self.page.wait("return location.pathname === '/study/runs/from-page.sqlite' && document.querySelector('.status')"
                       " && document.querySelector('.status').textContent === 'complete'", limit_s=30)
        self.assertIsNone(self.page.run("const b = document.querySelector('#doing'); return b && b.textContent"))
        self.at_rest()

    def test_a_search_shows_its_drivers(self):
        self.visit("/sweep?from=shipped:search_toy", "return document.querySelector('#points')?.textContent.includes('would look at')")
        self.assertEqual(self.page.run("return document.querySelector('#driver').value"), "nsga2")
        self.page.run("const b = document.querySelector('#budget'); b.value = 60; b.dispatchEvent(new Event('input'))")
        self.page.wait("return document.querySelector('#points')?.textContent.includes('60')", limit_s=20)
        self.page.resize(420, 900)
        self.fits("a study to be run on a telephone")
        self.at_rest()

    def test_sections_lists_and_search_reach_every_field(self):
        self.visit("/new?from=run:base", "return document.querySelectorAll('.field').length > 5")
        self.page.run("document.querySelectorAll('#all details').forEach((d) => { d.open = true; })")
        self.page.wait("""return document.querySelector('#all .field[data-pointer="/slo/ttft"]') !== null""")
        fields = self.page.run("return [...model.fields()].length")
        self.assertGreater(fields, 800)  # some of a thousand; the schema decides
        self.page.run("[...document.querySelectorAll('#all details')].find((d) => d.querySelector('summary').textContent.startsWith('devices')).querySelector('.inner > button').click()")
        self.assertEqual(self.page.run("return model.config.machine.devices.length"), 2)
        self.page.wait("return document.querySelectorAll('#changes li[data-changed]').length > 0")
        self.fits()
        self.at_rest()

    def test_live_study(self):
        place = self.folder / "growing.sqlite"
        place.write_bytes((self.folder / "parabola.sqlite").read_bytes())
        writer = sqlite3.connect(place, isolation_level=None)
        self.addCleanup(writer.close)
        writer.execute("pragma journal_mode = wal")
        rows = writer.execute("select * from points where id > 12").fetchall()
        writer.execute("delete from points where id > 12")
        writer.execute("update facts set value = 'no' where name = 'complete'")
        lock = subprocess.Popen(["flock", str(place), "cat"], stdin=subprocess.PIPE)
        self.addCleanup(lock.wait)
        self.addCleanup(lock.stdin.close)
        self.visit("/study/growing.sqlite", "return document.body.innerText.includes('12\\nof 30')")
        self.assertEqual(self.page.run("return document.querySelector('.status').textContent"), "running")
        writer.executemany(f"insert into points values ({', '.join('?' * len(rows[0]))})", rows[:8])
        self.page.wait("return document.body.innerText.includes('20\\nof 30')", limit_s=10)
        self.page.wait("return document.body.innerText.includes('rate')", limit_s=10)
        writer.executemany(f"insert into points values ({', '.join('?' * len(rows[0]))})", rows[8:])
        writer.execute("update facts set value = 'yes' where name = 'complete'")
        self.page.wait("return document.querySelector('.status').textContent === 'complete'", limit_s=10)
        self.at_rest()

    def test_a_study_counts_its_front_and_has_units(self):
        """A grid with 14 points on its front and 8 of them in the table; a shorter run and a point over a limit are none."""
        place = sweep(self.folder, "front", measures={"f1": "f1", "f2": "f2"}, objectives=[{"minimise": "f1"}, {"minimise": "f2"}])
        with sqlite3.connect(place, isolation_level=None) as store:
            study = json.loads(store.execute("select value from facts where name = 'document'").fetchone()[0])
            study["parameters"] = [{"name": "x", "path": "a.clock", "values": ["1 GHz", "2 GHz"]}, {"name": "y", "path": "b", "values": [1]}]
            store.execute("update facts set value = ? where name = 'document'", (json.dumps(study),))
            store.execute("update columns set detail = 'memory_bytes.peak' where name = 'f1'")
            store.execute("update points set x = 1.8e9, y = 2500000, f1 = 2147483648.0 - id, objective_f1 = 2147483648.0 - id, "
                          "objective_f2 = id, fidelity = 1, violation = 0")
            store.execute("update points set fidelity = 0.5 where id = 15")
            store.execute("update points set violation = 1 where id > 15")
            store.execute("update facts set value = 'no' where name = 'complete'")
        lock = subprocess.Popen(["flock", str(place), "cat"], stdin=subprocess.PIPE)
        self.addCleanup(lock.wait)
        self.addCleanup(lock.stdin.close)
        self.visit("/study/front.sqlite", "return document.querySelector('#study tbody') !== null")
        heads = self.page.run("return [...document.querySelectorAll('#study h2')].map(h => h.textContent)")
        self.assertEqual(heads, ["Front so far: 14 points", "14 points of the front, 8 of them shown"])
        cells = self.page.run("return [...document.querySelectorAll('#study tbody tr:first-child td')].map(c => c.textContent)")
        self.assertEqual(cells[1:5], ["1.8 GHz", "2.5 M", "2 GiB", "14"])
        self.assertIn("2 GiB", self.page.run("return document.querySelector('svg.trail').textContent"))
        self.page.resize(420, 900)
        self.fits("a study on a telephone")
        self.at_rest()

    def test_small_windows(self):
        self.page.resize(700, 700)
        for path, ready in (("/study/parabola.sqlite", "return document.querySelector('.cards') !== null"),
                            ("/new?from=run:base", "return document.querySelectorAll('.field').length > 5")):
            self.visit(path, ready)
            self.fits(path)
        self.at_rest()


if __name__ == "__main__":
    unittest.main()
