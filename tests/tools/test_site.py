"""The web pages of docs: every page is there, old addresses are answered, questions find their page, nothing is cut off."""

from __future__ import annotations

import re
import subprocess
import tempfile
import unittest
import urllib.parse
from pathlib import Path

import browser

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = Path(__file__).with_name("site_questions.txt")
FIRST = 10  # results that somebody looks at
SIZES = ((1400, 900), (420, 800))
KINDS = ("index", "learn/tutorial", "learn/gallery", "how-to/capacity", "explain/training", "reference/config-serving",
         "papers/seesaw", "fidelity", "search", "project/changes")
# What stands beyond the right edge of the window, unless something around it scrolls or hides it.
CUT = """
const found = [];
for (const element of document.querySelectorAll("main *, .content *, article *")) {
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.right <= window.innerWidth + 1) continue;
  let around = element;
  while (around && !["auto", "scroll", "hidden"].includes(getComputedStyle(around).overflowX)) around = around.parentElement;
  if (!around || around === document.body || around === document.documentElement) found.push(element.outerHTML.slice(0, 80));
}
return found;
"""
# Contrast of text and what is behind it, as the least ratio of luminances of the page's main text.
CONTRAST = """
function luminance(colour) {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}
const text = luminance(getComputedStyle((document.querySelector("article p, article h1") || document.body)).color);
const behind = luminance(getComputedStyle(document.body).backgroundColor);
return (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
"""


class Site(browser.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="orrery-site-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.site = Path(folder.name) / "site"
        done = subprocess.run(["/usr/bin/python3", str(ROOT / "tools/python/orrery_site"), "--out", str(cls.site)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        super().setUpClass()

    def url(self, page: str, more: str = "") -> str:
        return (self.site / f"{page}.html").as_uri() + more

    def test_every_page_is_there(self):
        pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
        made = {str(path.relative_to(self.site).with_suffix("")) for path in self.site.rglob("*.html")}
        self.assertEqual(pages - made, set())

    def test_list_of_pages_marks_the_page_and_leads_to_the_others(self):
        entry = re.compile(r'<li class="toctree-l1( current current-page)?"><a class="(?:current )?reference internal" href="([^"]*)">')
        lists = {page: entry.findall((self.site / f"{page}.html").read_text(encoding="utf-8"))
                 for page in ("index", "fidelity", "learn/tutorial", "papers/seesaw")}
        self.assertGreater(len(lists["index"]), 300)
        for page, found in lists.items():
            own = [place for place, (mark, _) in enumerate(found) if mark]
            goals = [((self.site / page).parent / goal).resolve() for _, goal in found]
            self.assertEqual(len(found), len(lists["index"]))
            self.assertEqual([found[place][1] for place in own], [] if page == "index" else ["#"], page)
            self.assertEqual([goal for goal, (mark, _) in zip(goals, found) if not mark and not goal.is_file()], [], page)
            for place in own:  # that of the start page leads here
                self.assertEqual(lists["index"][place][1], f"{page}.html")

    def test_old_addresses_lead_to_pages(self):
        lines = [line for line in (ROOT / "docs/moved.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 80)
        for old, new in (line.split() for line in lines):
            text = (self.site / f"{old}.html").read_text(encoding="utf-8")
            goal = re.search(r'url=([^"]+)"', text)[1]
            self.assertTrue(((self.site / f"{old}.html").parent / goal).resolve().is_file(), old)
            self.assertTrue((ROOT / f"docs/{new}.md").is_file(), new)
        self.page.open(self.url("claims"))
        self.page.wait("return document.title.startsWith('Claims')")

    def test_links_lead_somewhere(self):
        lost = set()
        for path in self.site.rglob("*.html"):
            for target in re.findall(r'(?:href|src)="([^"#?:]+)(?:[#?][^"]*)?"', path.read_text(encoding="utf-8")):
                if not target.startswith(("/", "data:")) and not (path.parent / target).resolve().exists():
                    lost.add(f"{path.relative_to(self.site)}: {target}")
        self.assertEqual(sorted(lost)[:10], [])

    def test_questions_find_their_page(self):
        rows = [line.split(" | ") for line in QUESTIONS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        self.assertGreaterEqual(len(rows), 60)
        missed = []
        for question, page in rows:
            self.page.open(self.url("search", "?q=" + urllib.parse.quote_plus(question)))
            self.page.wait("return /Search (finished|Results)/.test(document.querySelector('#search-results').textContent) &&"
                           f" (document.querySelectorAll('#search-results ul.search li').length >= {FIRST} ||"
                           " /(matching the search query|did not match)/.test(document.querySelector('#search-results').textContent))")
            found = self.page.run("return [...document.querySelectorAll('#search-results ul.search li > a')].map(a => a.getAttribute('href'))")
            names = list(dict.fromkeys(re.sub(r"\.html.*$", "", name) for name in found))[:FIRST]
            if page not in names:
                missed.append(f"{question}: {page} is not among {names[:4]}")
        self.assertEqual(missed, [], "\n" + "\n".join(missed))

    def test_nothing_is_cut_off_and_text_can_be_read(self):
        faults = []
        for scheme in ("light", "dark"):
            self.page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for width, height in SIZES:
                self.page.resize(width, height)
                for kind in KINDS:
                    self.page.open(self.url(kind))
                    self.page.wait("return document.body.dataset.theme !== 'auto'")
                    self.assertEqual(self.page.run("return document.body.dataset.theme"), scheme)
                    faults += [f"{kind} at {width}: {what}" for what in self.page.run(CUT)]
                    contrast = self.page.run(CONTRAST)
                    if contrast < 7:
                        faults.append(f"{kind} {scheme}: contrast of {contrast:.1f}")
        self.assertEqual(faults[:10], [])
        self.quiet()


if __name__ == "__main__":
    unittest.main()
