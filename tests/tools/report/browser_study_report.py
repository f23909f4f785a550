"""The report of studies, from stores that the built command made, in a headless browser: tabs, clicks, the command that
repeats a point."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

from pages import COMMAND, STUDIES, Pages, orrery
from orrery_report import page, study_digest, study_page, study_store

FAILING = {
    "kind": "study", "version": 1, "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
    "parameters": [{"name": "x", "path": "workload.point.x", "values": [0, 1, 2, 99]},
                   {"name": "words", "path": [], "values": ["<b>one</b>", "two"]}],
    "measures": {"f1": "f1", "f2": "f2"}, "objectives": [{"minimise": "f1"}]}


class StudyPages(Pages):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.scratch = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="orrery-report-")))
        orrery("sweep", STUDIES / "sweep_serving.json", "--out", "sweep.sqlite", "--quiet", cwd=cls.scratch)
        orrery("search", STUDIES / "search_toy.json", "--out", "toy.sqlite", "--set", "search.repeats=3", "--quiet",
               cwd=cls.scratch)
        (cls.scratch / "failing.json").write_text(json.dumps(FAILING))
        orrery("sweep", "failing.json", "--out", "failing.sqlite", "--quiet", cwd=cls.scratch)
        (cls.scratch / "plain.json").write_text(json.dumps({k: v for k, v in FAILING.items() if k != "objectives"}))
        orrery("sweep", "plain.json", "--out", "plain.sqlite", "--quiet", cwd=cls.scratch)
        for name in ("sweep", "toy", "failing", "plain"):
            orrery("report", f"{name}.sqlite", cwd=cls.scratch)

    def point(self, id: int, *columns: str, store: str = "sweep") -> tuple:
        with sqlite3.connect(self.scratch / f"{store}.sqlite") as database:
            return database.execute(f"SELECT {', '.join(columns)} FROM points WHERE id = ?", (id,)).fetchone()

    def drawer(self) -> str:
        self.page.wait("return !document.getElementById('point').hidden")
        return self.page.run("return document.getElementById('point').innerText")

    def test_every_tab_is_drawn(self) -> None:
        found = self.tour(self.scratch / "sweep.html")
        self.assertEqual(list(found), ["overview", "front", "progress", "parallel", "parameters", "points", "study"])
        self.assertGreaterEqual(found["front"]["points"], 180)
        self.assertEqual(found["progress"], {"progress": 3})
        # Of both objectives: two bars a parameter, a picture of pairs, a mark a value.
        self.assertEqual(found["parameters"]["importance-0"], 8)
        self.assertEqual(found["parameters"]["effects-1"], 3 + 4 + 4 + 6)
        self.assertEqual(found["parameters"]["pairs-1"], 1)

    def test_a_click_on_a_point_of_the_front_shows_its_config_and_how_to_repeat_it(self) -> None:
        b = self.page
        b.open((self.scratch / "sweep.html").as_uri() + "#front")
        b.wait(self.DRAWN)
        b.run("window.scrollTo(0, 0)")
        at = b.run("""const plot = document.querySelector('[data-plot]'), drag = plot.querySelector('.nsewdrag').getBoundingClientRect();
            const trace = plot.data.findIndex(t => t.name === 'front'), row = 3, f = plot._fullLayout, t = plot.data[trace];
            return [drag.x + f.xaxis.d2p(t.x[row]), drag.y + f.yaxis.d2p(t.y[row]), t.text[row]];""")
        b.click_at(*at[:2])
        text, id = self.drawer(), int(at[2])
        self.assertIn(id, (66, 72, 78, 84))  # points that lie together: one of the four is on top
        shown = int(text.split("\n")[0].removeprefix("Point "))
        self.assertIn(shown, (66, 72, 78, 84))
        device, budget, rate, ttft = self.point(shown, "device", "budget", "rate", "ttft")
        self.assertIn(f"machine.devices.0.part={device}", text)
        self.assertIn(f"policies.batching.sarathi.token_budget={budget}", text)
        self.assertIn(f"workload.rate_scale={rate}", text)
        self.assertIn(f"{1000 * ttft:.5g}\N{NO-BREAK SPACE}ms", text)
        config = json.loads(b.run("return document.querySelector('#point details pre').textContent"))
        self.assertEqual((config["machine"]["devices"][0]["part"], config["workload"]["rate_scale"]), (device, rate))
        self.assertEqual(config["run"]["timeline"]["enabled"], False)  # of the study's base
        command = b.run("return document.querySelector('#point code').textContent")
        b.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        b.click("#point .copy")
        b.wait("return document.querySelector('#point .copy').textContent === 'Copied'")
        self.assertEqual(b.run("return navigator.clipboard.readText()"), command)
        # What the page tells to run gives what the page shows, to the bit.
        words = shlex.split(command)
        self.assertEqual(words[0], "orrery")
        run = subprocess.run([COMMAND, *words[1:], "--json", "--quiet", "--out", "again"], cwd=self.scratch, check=True,
                             capture_output=True, text=True)
        self.assertEqual(json.loads(run.stdout)["ttft_s"]["p99"], ttft)
        self.fits("with a point open")
        b.press("Escape")
        b.wait("return document.getElementById('point').hidden")
        self.quiet()

    def test_the_table_sorts_filters_and_opens_points_by_keyboard(self) -> None:
        b = self.page
        b.open((self.scratch / "sweep.html").as_uri() + "#points")
        b.wait(self.DRAWN)
        first = "return document.querySelector('#points tbody tr td').innerText"
        count = "return document.querySelector('#points .count').innerText"
        head = "[...document.querySelectorAll('#points thead th')].findIndex(h => h.innerText.startsWith(arguments[0]))"
        self.assertEqual((b.run(first), b.run(count)), ("1", "1–50 of 180 rows"))
        b.run(f"document.querySelectorAll('#points thead button')[{head}].focus()", "speed")
        b.press("Enter")
        b.press("Enter")
        self.assertEqual(b.run(f"return document.querySelectorAll('#points thead th')[{head}].getAttribute('aria-sort')", "speed"),
                         "descending")
        with sqlite3.connect(self.scratch / "sweep.sqlite") as database:
            (best,) = database.execute("SELECT id FROM points ORDER BY speed DESC, id LIMIT 1").fetchone()
            (many,) = database.execute("SELECT count(*) FROM points WHERE rate > 2 AND device LIKE '%l40s%'").fetchone()
        self.assertEqual(b.run(first), str(best))
        b.run("document.querySelector('[aria-label=\"Filter rate\"]').focus()")
        b.type(">2")
        b.run("document.querySelector('[aria-label=\"Filter device\"]').focus()")
        b.type("L40S")
        self.assertEqual(b.run(count), f"1–{many} of {many} rows, 180 in total")
        b.run("document.querySelector('[aria-label=\"Filter rate\"]').focus()")
        b.type("x")
        self.assertEqual(b.run("return document.activeElement.getAttribute('aria-invalid')"), "true")
        b.click("#points .grid-bar button")
        self.assertIn("of 180 rows", b.run(count))
        b.run("document.querySelector('#points tbody button').focus()")
        b.press("Enter")
        self.assertIn(f"Point {best}", self.drawer())
        self.assertEqual(b.run("return document.activeElement.id"), "point-title")
        b.click("#point .close")
        self.assertEqual(b.run("return document.activeElement.innerText"), str(best))
        self.quiet()

    def test_axes_of_parallel_coordinates_are_brushed(self) -> None:
        b = self.page
        b.open((self.scratch / "sweep.html").as_uri() + "#parallel")
        b.wait(self.DRAWN)
        told = "return document.querySelector('#parallel .count').innerText"
        self.assertEqual(b.run(told), "94 lines; blue: front")
        x, y, height = b.run("""const r = [...document.querySelectorAll('.axis')][3].getBoundingClientRect();
            return [r.x + r.width / 2, r.y, r.height]""")
        b.drag((x, y + 4), (x, y + 0.2 * height))  # the top of `rate`: 6
        with sqlite3.connect(self.scratch / "sweep.sqlite") as database:
            (many,) = database.execute("SELECT count(*) FROM points WHERE rate = 6 AND violation = 0").fetchone()
        self.assertEqual(b.run(told), f"{many} of 94 lines in the selected ranges")
        b.click("#parallel .chip")
        self.drawer()
        b.press("Escape")
        b.run("document.querySelectorAll('.axis')[1].focus()")
        b.press("Enter")
        self.assertNotEqual(b.run(told), f"{many} of 94 lines in the selected ranges")
        b.press("Escape")
        self.assertEqual(b.run(told), f"{many} of 94 lines in the selected ranges")
        b.click("#parallel .grid-bar button")
        self.assertEqual(b.run(told), "94 lines; blue: front")
        self.quiet()

    def test_any_two_figures_may_be_axes(self) -> None:
        b = self.page
        b.open((self.scratch / "sweep.html").as_uri() + "#front")
        b.wait(self.DRAWN)
        b.run("""const s = document.querySelectorAll('.explorer select'); s[0].value = 'ttft'; s[1].value = 'tbt';
            s[1].dispatchEvent(new Event('change')); document.querySelector('.explorer input').click()""")
        b.wait("const f = document.querySelector('[data-plot]')._fullLayout; return f.xaxis.title.text.startsWith('ttft') && "
               "f.yaxis.title.text.startsWith('tbt') && f.xaxis.type === 'log'")
        self.quiet()

    def test_searches_failures_one_objective_and_none(self) -> None:
        self.assertEqual(self.tour(self.scratch / "toy.html", (1366,))["progress"], {"progress": 3 * 3})  # two edges of a band, a line
        found = self.tour(self.scratch / "failing.html", (1366,))
        self.assertGreaterEqual(found["front"]["points"], 3)
        text = self.page.run("return document.getElementById('overview').textContent")
        self.assertIn("The best", text)
        self.assertIn("Points without a result", text)
        self.page.click("#tab-points")
        self.page.click("#points tbody tr:nth-child(7) td:nth-child(3)")
        self.assertIn("99", self.drawer())
        self.assertEqual(self.page.run("return document.querySelectorAll('#point b, #points b:not(.grid-bar b)').length"), 0)
        found = self.tour(self.scratch / "plain.html", (1366,))
        self.assertEqual(list(found), ["overview", "front", "parallel", "points", "study"])
        self.quiet()

    def test_faults_are_one_line_and_write_nothing(self) -> None:
        run = orrery("run", STUDIES / "first_light.json", "--set", "workload.limit=20", "--out", "run", "--quiet", cwd=self.scratch)
        self.assertEqual(run.stderr, "")
        (self.scratch / "text.sqlite").write_text("no store")
        with sqlite3.connect(self.scratch / "other.sqlite") as other:
            other.execute("CREATE TABLE t(x)")
        for arguments, said in ((("text.sqlite",), "text.sqlite: expected a run folder or a study's store, got a file that is neither"),
                                (("other.sqlite",), "got a file that is neither"),
                                (("none.sqlite",), "got nothing of that name"),
                                (("run", "toy.sqlite"), "run: expected a study's store like toy.sqlite, got a run"),
                                (("toy.sqlite", "toy.sqlite"), "expected different runs or studies, got the same twice"),
                                (("toy.sqlite", "sweep.sqlite"), "sweep.sqlite: expected the objectives of"),
                                (("toy.sqlite", "--out", "."), "expected a file to write, got a folder"),
                                (("toy.sqlite", "--command", "/none"), "/none: expected a program that can be run")):
            if "--command" in arguments:
                done = subprocess.run(["/usr/bin/python3", str(Path(page.__file__).parent), *arguments, "--out", "new.html"],
                                      cwd=self.scratch, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2)
            else:
                extra = () if "--out" in arguments else ("--out", "new.html")
                done = orrery("report", *arguments, *extra, cwd=self.scratch, code=2)
            self.assertIn(said, done.stderr)
            self.assertEqual((done.stderr.count("\n"), done.stdout), (1, ""))
            self.assertFalse((self.scratch / "new.html").exists())


CHIP = {"kind": "study", "version": 1, "base": json.loads((STUDIES / "space_npu.json").read_text())["base"],
        "parameters": [{"name": "clock", "path": "machine.device.override.clock", "values": ["1800 MHz", "1200 MHz"]},
                       {"name": "scratch", "path": "machine.device.override.scratch.l1", "values": ["64 MiB", "128 MiB"]},
                       {"name": "bandwidth", "path": "machine.device.override.memory_bandwidth", "range": ["1 TB/s", "6 TB/s"], "steps": 3},
                       {"name": "flops", "path": [], "formula": "262144 * clock", "unit": "FLOP/s"}],
        "measures": {"latency": "latency_s.mean", "moved": "bytes_moved.total", "work": "graph.tensors * 1000000"},
        "objectives": [{"minimise": "latency"}, {"minimise": "moved"}]}


class UnitsOfStudies(Pages):
    """A study over a chip whose parameters are a clock, a size, a bandwidth and a rate of operations."""

    # Numbers of 100,000 and more on show, but for those of configs and commands.
    BARE = """return [...document.querySelectorAll('.panel.shown *, .drawer *')].filter(e => !e.closest('pre, code, script, .modebar'))
        .flatMap(e => [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.textContent))
        .filter(t => t.split(/\\s+/).some(w => /^[\\d,.]+(e[+-]?\\d+)?$/.test(w) && Number(w.replace(/,/g, '')) >= 1e5))"""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.scratch = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="orrery-report-")))
        (cls.scratch / "chip.json").write_text(json.dumps(CHIP))
        orrery("sweep", "chip.json", "--out", "chip.sqlite", "--quiet", cwd=cls.scratch)
        orrery("report", "chip.sqlite", cwd=cls.scratch)

    def test_every_number_has_its_prefix_and_unit(self) -> None:
        self.page.open((self.scratch / "chip.html").as_uri())
        for tab in self.page.run(self.TABS_THERE):
            self.page.click(f"#tab-{tab}")
            self.page.wait(self.DRAWN)
            self.assertEqual(self.page.run(self.BARE), [], tab)
        self.page.click("#tab-points")
        heads = self.page.run("return [...document.querySelectorAll('#points thead th')].map(h => h.innerText)")
        cells = self.page.run("return [...document.querySelectorAll('#points tbody tr')].map(r => [...r.cells].map(c => c.innerText.replace('\\u00a0', ' ')))")
        shown = {head: {row[i] for row in cells} for i, head in enumerate(heads)}
        self.assertEqual(shown["clock"], {"1.8 GHz", "1.2 GHz"})
        self.assertEqual(shown["scratch"], {"64 MiB", "128 MiB"})
        self.assertEqual(shown["bandwidth"], {"1 TB/s", "3.5 TB/s", "6 TB/s"})
        self.assertEqual(shown["flops"], {"471.86 TFLOP/s", "314.57 TFLOP/s"})  # 2^18 an operation a clock
        self.assertTrue(all(text.endswith(" ms") for text in shown["latency"]), shown["latency"])
        self.assertTrue(all(text.endswith(" GiB") for text in shown["moved"]), shown["moved"])
        self.page.click("#points tbody tr:nth-child(2) td:nth-child(3)")
        self.page.wait("return !document.getElementById('point').hidden")
        self.assertIn("TB/s", self.page.run("return document.getElementById('point').innerText"))
        self.assertEqual(self.page.run(self.BARE), [])
        self.quiet()

    def test_filters_take_units_and_prefixes(self) -> None:
        self.page.open((self.scratch / "chip.html").as_uri() + "#points")
        self.page.wait(self.DRAWN)
        count = "return document.querySelector('#points .count').innerText"
        for text, many in ((">1.5 GHz", 6), ("<=1200 MHz", 6), ("1.8G", 6), ("1.8e9", 6), ("1..1.3 GHz", 6), (">2G", 0)):
            self.page.run("""const input = document.querySelector('[aria-label="Filter clock"]'); input.value = arguments[0];
                input.dispatchEvent(new Event('input'))""", text)
            self.assertEqual(self.page.run(count).split(" of ")[1].split(" ")[0], str(many or 12), text)
            self.assertEqual(self.page.run(count).startswith("none"), many == 0, text)
        self.quiet()

    def test_axes_are_drawn_in_the_unit_that_they_name(self) -> None:
        b = self.page
        b.open((self.scratch / "chip.html").as_uri() + "#front")
        b.wait(self.DRAWN)
        b.run("""const s = document.querySelectorAll('.explorer select'); s[0].value = 'clock'; s[1].value = 'flops'; s[2].value = 'clock';
            s[1].dispatchEvent(new Event('change'))""")
        b.wait("return document.querySelector('[data-plot]')._fullLayout.xaxis.title.text === 'clock (GHz)'")
        self.assertEqual(b.run("return document.querySelector('[data-plot]')._fullLayout.yaxis.title.text"), "flops (TFLOP/s)")
        self.assertEqual(b.run("return [...new Set(document.querySelector('[data-plot]').data.filter(t => t.x.length).flatMap(t => t.x))].sort()"),
                         [1.2, 1.8])
        self.assertEqual(b.run("return document.querySelector('[data-plot]').data.filter(t => t.showlegend).map(t => t.name)"),
                         ["1.2\N{NO-BREAK SPACE}GHz", "1.8\N{NO-BREAK SPACE}GHz"])
        self.quiet()

    def test_importance_is_not_told_where_a_forest_explains_nothing(self) -> None:
        study = study_store.load(self.scratch / "chip.sqlite", COMMAND)
        for explained, told in ((0.8, True), (0.0, False), (-0.4, False)):
            for objective in study.analysis["analysis"]["objectives"]:
                objective["importance"]["explained"] = explained
            text = study_page.render(study, "plotly.js")
            self.assertEqual("Importance for latency" in text, told)
            self.assertEqual("nothing of unseen points" in text, not told)
            self.assertIn("Main effects on latency", text)


class Digest(unittest.TestCase):
    def test_the_front_is_never_thinned_and_the_rest_evenly(self) -> None:
        """100,000 made-up points: all of the front is drawn, every 33rd of the others."""
        import pandas as pd

        count = 100_000
        frame = pd.DataFrame({"id": range(1, count + 1), "repeat": 0, "fidelity": 1.0, "status": "ok", "reason": None,
                              "violation": 0.0, "x": [float(i) for i in range(count)], "objective_f": 1.0, "objective_g": 1.0})
        columns = tuple(study_store.Column(*c) for c in (("x", "parameter", ""), ("objective_f", "objective", "minimise"),
                                                         ("objective_g", "objective", "minimise")))
        goals = tuple({"name": n, "label": n, "maximise": False} for n in "fg")
        analysis = {"analysis": {"front": [{"trial": 10 * i + 1} for i in range(4000)]}}
        study = study_store.Study(Path("s"), {"study": "s", "mode": "sweep"}, {"objectives": []}, columns, frame, (), 1, analysis,
                                  goals, None)
        points = study_digest.digest(study)
        chief = points.standing[points.kept[points.drawn]] == "front"
        self.assertEqual(int(chief.sum()), 4000)
        # 96,000 others: every 32nd is 3,000.
        self.assertEqual(len(points.drawn) - 4000, 3000)
        self.assertEqual(len(points.kept), count)
        self.assertIn("7,000 of 100\N{NO-BREAK SPACE}k points", study_digest.rule(points))


if __name__ == "__main__":
    unittest.main()
