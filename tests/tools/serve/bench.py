"""How quick the explorer is with many runs: `ORRERY_COMMAND=… /usr/bin/python3 tests/tools/serve/bench.py [RUNS]`."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path

import support

import browser  # noqa: E402

ALL = "return document.querySelectorAll('tbody tr').length > 0 && document.querySelector('.tabs small').textContent === '{:,}'"


def many(folder: Path, runs: int) -> None:
    """Copies of one real run that differ in a figure."""
    (folder / "small.json").write_text(json.dumps(support.SMALL))
    support.orrery("run", folder / "small.json", "--out", folder / "first", "--quiet")
    manifest, summary = ((folder / "first" / f"{name}.json").read_text() for name in ("manifest", "summary"))
    draw = random.Random(1)
    for i in range(1, runs):
        place = folder / f"group-{i // 100}" / f"run-{i}"
        place.mkdir(parents=True)
        (place / "manifest.json").write_text(manifest)
        told = json.loads(summary)
        told["ttft_s"]["p99"] = draw.random()
        (place / "summary.json").write_text(json.dumps(told, indent=2))


def timed(what: str, act) -> None:
    begin = time.perf_counter()
    act()
    print(f"{what:40} {time.perf_counter() - begin:6.2f} s")


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        many(Path(place), runs)
        server = support.Served(Path(place))
        with browser.Browser() as page:
            timed("first rows", lambda: (page.open(server.url), page.wait("return document.querySelector('tbody tr') !== null")))
            timed("and all", lambda: page.wait(ALL.format(runs)))
            timed("opened again", lambda: (page.open(server.url), page.wait(ALL.format(runs))))
            for what, script in (("sort", "document.querySelector('th[data-sort=ttft_p99_s]').click()"),
                                 ("filter", "view.text = 'ttft<0.5'; draw()")):
                print(f"{what:40} {page.run('const t = performance.now(); ' + script + '; return performance.now() - t') / 1e3:6.2f} s")
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().split()
        print(f"{'CPU of the server':40} {(int(fields[13]) + int(fields[14])) / 100:6.2f} s")
        server.end()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
