"""Makes web pages of docs: `tools/site [--out FOLDER]`.

Sphinx with MyST and the theme Furo, all from Debian, build them from a copy of docs in which links to files outside of it
lead to copies. Search works offline, from the file system too. Old addresses (docs/moved.txt) lead to the new ones.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import source  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
STUB = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title><meta http-equiv="refresh" content="0; url={to}">
<link rel="canonical" href="{to}"></head><body><p>This page is now <a href="{to}">{to}</a>.</p></body></html>
"""


def write_stubs(root: Path, out: Path) -> int:
    """A page at each old address that leads to the new one; how many."""
    moved = source.moved(root)
    for old, new in moved.items():
        path = out / f"{old}.html"
        if path.exists():
            raise SystemExit(f"docs/moved.txt: {old} is a page again")
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * old.count("/")
        path.write_text(STUB.format(to=f"{up}{new}.html"), encoding="utf-8")
    return len(moved)


def mend_theme(made: Path) -> None:
    """Makes the theme of Debian's build work from the file system: one script in place of modules, no lost style."""
    static = made / "_static"
    script, scroll = static / "scripts/furo.js", static / "scripts/gumshoe-patched.js"
    lines = [line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("import ")]
    script.write_text(scroll.read_text(encoding="utf-8") + "\n".join(lines) + "\n", encoding="utf-8")
    style = static / "styles/furo.css"
    lines = [line for line in style.read_text(encoding="utf-8").splitlines() if not line.startswith("@import url(/")]
    style.write_text("\n".join(lines) + "\n", encoding="utf-8")


def build(out: Path, quiet: bool = False) -> None:
    """Writes the site into `out`, whose contents it replaces. Raises SystemExit where Sphinx finds fault."""
    with tempfile.TemporaryDirectory(prefix="orrery-site-") as folder:
        pages = Path(folder) / "source"
        source.write(ROOT, pages)
        for name in ("conf.py", "navigation.py", "scorer.js"):
            shutil.copy(Path(__file__).with_name(name), pages / name)
        shutil.copytree(Path(__file__).with_name("static"), pages / "_site")
        made = Path(folder) / "html"
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html",
                   "-d", str(Path(folder) / "trees"), str(pages), str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print("\n".join(dict.fromkeys(done.stderr.splitlines())), file=sys.stderr)
            raise SystemExit("sphinx found fault with the pages")
        mend_theme(made)
        stubs = write_stubs(ROOT, made)
        if out.exists():
            if not (out / "searchindex.js").is_file() and any(out.iterdir()):
                raise SystemExit(f"{out}: is not a site that this made; choose another folder")
            shutil.rmtree(out)
        shutil.copytree(made, out)
    if not quiet:
        count = sum(1 for _ in out.rglob("*.html"))
        print(f"{count} pages, {stubs} of them old addresses; open {out}/index.html")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/site", help="default: build/site")
    build(parser.parse_args().out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
