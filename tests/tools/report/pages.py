"""What tests of report pages share: the command that made them, and a look at every tab in a headless browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tools" / "python")]

import browser  # noqa: E402

COMMAND = os.environ.get("ORRERY_COMMAND", str(ROOT / "build" / "release" / "orrery"))
STUDIES = ROOT / "experiments" / "studies"


def orrery(*arguments: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess:
    """Runs the command in a folder; AssertionError with what it said if it ends otherwise."""
    done = subprocess.run([COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"orrery {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}")
    return done


class Pages(browser.TestCase):
    """A test of a report's page in the browser."""

    SHOWN = "return [...document.querySelectorAll('.panel')].filter(p => p.offsetHeight > 0).map(p => p.id)"
    TABS_THERE = "return [...document.querySelectorAll('[role=tab]')].map(t => t.dataset.tab)"
    DRAWN = """return [...document.querySelectorAll('.panel.shown :is([data-figure], [data-plot], [data-grid], [data-parallel])')]
        .every(p => p.dataset.drawn === 'done')"""
    # Of each plot on show: its key and how many curves, marks and bars were really drawn.
    MARKS = """return [...document.querySelectorAll('.panel.shown :is([data-figure], [data-plot])')].map(p =>
        [p.dataset.figure || p.dataset.plot, [...p.querySelectorAll('.js-line, .point path, path.point, .heatmaplayer image')]
        .filter(m => (m.getAttribute('d') || m.getAttribute('xlink:href') || m.getAttribute('href') || '').length > 4).length])"""
    # Axes without a title, by the element's rule of an accessible name: buttons, inputs and selects that have none.
    NAMELESS = """return [...document.querySelectorAll('main :is(button, input, select, [tabindex="0"])')].filter(e =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || (e.labels || []).length || e.closest('.modebar')))
        .map(e => e.outerHTML.slice(0, 120))"""

    # Texts, cells and boxes on show that reach beyond what holds them: [element, holder, text]. Where the holder scrolls, it
    # must say so by a shade at its edge (bars are hidden on many screens), or be the row of tabs.
    OUTSIDE = """const found = [], near = 1.5;
        const told = (e, holder, why) => found.push([why, `${e.tagName}.${e.className}`, `${holder.tagName}.${holder.className}`,
            e.textContent.trim().slice(0, 60)]);
        const shown = (e) => e.getClientRects().length && getComputedStyle(e).position !== 'fixed' &&
            !e.closest('svg, .modebar-container, .off, .drawer[hidden], script, option');
        const held = (e, rect) => {
          for (let holder = e.parentElement; holder && holder !== document.body; holder = holder.parentElement) {
            const style = getComputedStyle(holder), box = holder.getBoundingClientRect();
            if (style.display === 'inline' || style.display === 'contents') continue;
            if (['auto', 'scroll'].includes(style.overflowX)) {
              if (holder.scrollWidth > holder.clientWidth + near && holder.tagName !== 'NAV' &&
                  !style.backgroundImage.includes('gradient') && !holder.matches('.drawer'))
                told(e, holder, 'scrolls unseen');
              rect = box;
            } else if (rect.right > box.right + near || rect.left < box.left - near) {
              return told(e, holder, `outside by ${Math.max(rect.right - box.right, box.left - rect.left).toFixed(1)}`);
            }
          }
          if (rect.right > innerWidth + near || rect.left < -near) told(e, document.body, 'beyond the window');
        };
        for (const e of document.querySelectorAll('header *, .panel.shown *, .drawer *')) {
          if (!shown(e)) continue;
          const style = getComputedStyle(e);
          if (['hidden', 'clip'].includes(style.overflowX) && e.scrollWidth > e.clientWidth + near && !e.matches('.stack'))
            told(e, e, 'clipped');
          if (style.display !== 'inline') held(e, e.getBoundingClientRect());
          for (const node of e.childNodes) {
            if (node.nodeType !== Node.TEXT_NODE || !node.textContent.trim()) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            const box = style.display === 'inline' ? e.parentElement : e, rect = range.getBoundingClientRect();
            const outer = box.getBoundingClientRect();
            if (rect.width && style.display !== 'inline' && (rect.right > outer.right + near || rect.left < outer.left - near) &&
                !['auto', 'scroll'].includes(style.overflowX)) told(e, e, 'text outside');
            else if (rect.width && style.display === 'inline') held(e, rect);
          }
        }
        // Labels of plots lie inside their picture.
        for (const plot of document.querySelectorAll('.panel.shown .js-plotly-plot')) {
          const box = plot.getBoundingClientRect();
          for (const text of plot.querySelectorAll('svg text')) {
            const rect = text.getBoundingClientRect();
            if (rect.width && (rect.right > box.right + 3 || rect.left < box.left - 3 || rect.top < box.top - 3 ||
                rect.bottom > box.bottom + 3)) found.push(['label cut', plot.id, '', text.textContent.slice(0, 60)]);
          }
        }
        return found;"""

    def tour(self, file: Path, widths: tuple[int, ...] = (1400, 420)) -> dict[str, dict[str, int]]:
        """Opens the page and every tab, at every width: all is drawn, nothing sticks out, nothing is asked for or said.
        What was drawn, by tab and plot."""
        found: dict[str, dict[str, int]] = {}
        for width in widths:
            self.page.resize(width, 768)
            self.page.open(file.resolve().as_uri())
            for tab in self.page.run(self.TABS_THERE):
                self.page.click(f"#tab-{tab}")
                self.page.wait(self.DRAWN)
                self.assertEqual(self.page.run(self.SHOWN), [tab])
                self.assertGreater(self.page.run("return document.querySelector('.panel.shown').innerText.trim().length"), 20, tab)
                self.fits((tab, width))
                self.assertEqual(self.page.run(self.OUTSIDE), [], (file.name, tab, width))
                if width == widths[0]:
                    found[tab] = dict(self.page.run(self.MARKS))
        self.assertEqual(self.page.run(self.NAMELESS), [])
        self.quiet()
        return found
