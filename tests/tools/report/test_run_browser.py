"""The report of a run in a headless browser, on made-up run folders."""

from __future__ import annotations

import shutil
import unittest

import synthetic_run
from pages import Pages
from test_report import HOSTILE, Folder


class RunInBrowser(Pages, Folder):
    TABS = ("overview", "latency", "time", "requests", "energy", "config")

    def test_every_tab_draws_without_errors_or_requests(self) -> None:
        synthetic_run.write_run(self.run_folder, requests=3000, replicas=3, samples=1500,
                                config=synthetic_run.CONFIG | {"note": HOSTILE})
        self.html()
        url = (self.run_folder / "report.html").as_uri()
        least = {"latency": 5, "time": 15, "requests": 2000, "tokens": 2, "classes": 26, "devices": 28,
                 "small-latency": 2, "small-time": 3, "small-classes": 13}
        page = self.page
        page.open(url)
        drawn = {}
        for tab in self.TABS:
            page.run("document.getElementById('tab-' + arguments[0]).click()", tab)
            page.wait(self.DRAWN)
            self.assertEqual(page.run(self.SHOWN), [tab])
            self.assertLessEqual(page.run("return document.documentElement.scrollWidth - innerWidth"), 0, tab)
            drawn |= dict(page.run(self.MARKS))
        self.assertEqual(set(drawn), set(least))
        for key, count in least.items():
            self.assertGreaterEqual(drawn[key], count, key)
        self.assertIsNone(page.run("return window.hostile || null"))
        self.assertIn(HOSTILE[:30], page.run("return document.getElementById('config').textContent"))
        self.quiet()

    def test_address_keys_and_switches(self) -> None:
        self.small()
        self.html()
        page = self.page
        page.open((self.run_folder / "report.html").as_uri() + "#latency")
        page.wait(self.DRAWN)
        self.assertEqual(page.run(self.SHOWN), ["latency"])
        axes = "const l = document.getElementById('plot-latency')._fullLayout; return [l.xaxis.type, l.yaxis.type]"
        press = "document.querySelector(`[data-set=${arguments[0]}][data-value='${arguments[1]}']`).click()"
        self.assertEqual(page.run(axes), ["log", "linear"])
        page.run(press, "x", "linear")
        page.wait("return document.getElementById('plot-latency')._fullLayout.xaxis.type === 'linear'")
        page.run(press, "tail", "1")
        page.wait("return document.getElementById('plot-latency')._fullLayout.yaxis.type === 'log'")
        page.run(press, "x", "log")
        page.run(press, "tail", "0")
        page.wait("return document.getElementById('plot-latency')._fullLayout.yaxis.type === 'linear'")
        self.assertEqual(page.run(axes), ["log", "linear"])
        page.run("document.getElementById('tab-latency').dispatchEvent(new KeyboardEvent('keydown', "
                 "{key: 'ArrowRight'}))")
        page.wait(self.DRAWN)
        self.assertEqual((page.run(self.SHOWN), page.run("return location.hash")), (["time"], "#time"))
        self.quiet()

    def test_printing_shows_and_draws_everything(self) -> None:
        self.small()
        self.html()
        page = self.page
        page.open((self.run_folder / "report.html").as_uri())
        self.assertTrue(page.command("Page.printToPDF")["data"].startswith("JVBERi"))
        page.run("window.dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(tuple(page.run(self.SHOWN)), self.TABS)
        widths = page.run("return [...document.querySelectorAll('.main-svg')].map(s => s.clientWidth)")
        self.assertEqual(set(widths), {680, 680 // 3 - 10}, widths)  # three small ones stand side by side
        self.quiet()

    def test_a_dark_screen_turns_neutral_colours_and_paper_turns_them_back(self) -> None:
        self.small()
        self.html()
        page = self.page
        colours = """const plot = document.getElementById('plot-latency'), layout = plot.layout;
            return [getComputedStyle(document.body).backgroundColor, layout.paper_bgcolor, layout.font.color,
                    layout.yaxis.gridcolor, plot.data[0].line.color]"""
        series = "#0072B2"  # a series keeps its colour
        light = ["rgb(255, 255, 255)", "#ffffff", "#1f2933", "#e4e8ec", series]
        dark = ["rgb(20, 24, 28)", "#14181c", "#dde3e9", "#2c343c", series]
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.open((self.run_folder / "report.html").as_uri() + "#latency")
        page.wait(self.DRAWN)
        self.assertEqual(page.run(colours), dark)
        # What its reader has chosen stays where the colours change.
        page.run("document.querySelector(`[data-set=x][data-value='linear']`).click()")
        page.wait("return document.getElementById('plot-latency')._fullLayout.xaxis.type === 'linear'")
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        page.wait("return document.getElementById('plot-latency').layout.paper_bgcolor === '#ffffff'")
        self.assertEqual(page.run(colours), light)
        self.assertEqual(page.run("return document.getElementById('plot-latency')._fullLayout.xaxis.type"), "linear")
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.wait("return document.getElementById('plot-latency').layout.paper_bgcolor === '#14181c'")
        page.run("window.dispatchEvent(new Event('beforeprint'))")
        page.wait("return document.getElementById('plot-latency').layout.paper_bgcolor === '#ffffff'")
        page.run("window.dispatchEvent(new Event('afterprint'))")
        page.wait("return document.getElementById('plot-latency').layout.paper_bgcolor === '#14181c'")
        page.command("Emulation.setEmulatedMedia", features=[])
        self.quiet()

    def test_infeasible_and_empty_runs(self) -> None:
        synthetic_run.write_infeasible(self.run_folder)
        self.html()
        page = self.page
        page.open((self.run_folder / "report.html").as_uri())
        self.assertEqual(page.run(self.SHOWN), ["overview"])
        self.quiet()
        shutil.rmtree(self.run_folder)
        synthetic_run.write_run(self.run_folder, requests=1, samples=1, devices=1, rejected=False)
        self.html()
        page.open((self.run_folder / "report.html").as_uri())
        for tab in self.TABS:
            page.run("document.getElementById('tab-' + arguments[0]).click()", tab)
            page.wait(self.DRAWN)
        self.quiet()


if __name__ == "__main__":
    unittest.main()
