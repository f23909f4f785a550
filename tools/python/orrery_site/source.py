"""What Sphinx reads: the pages of docs with their links to the outside turned, and what the sidebar shows."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path

LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n", re.M)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
PAGES = {"README.md": "project/readme", "CONTRIBUTING.md": "project/contributing", "CHANGELOG.md": "project/changes"}
IMAGES = (".png", ".svg")
LEXERS = {"csv": "text"}  # languages of blocks that Pygments does not know
MOST_FILE = 2_000_000  # bytes of a file that is copied beside the pages


def moved(root: Path) -> dict[str, str]:
    """Old places of pages and their new ones."""
    lines = (root / "docs/moved.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def outside_of_code(text: str, change) -> str:
    """The text with `change` applied to all but fenced blocks."""
    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[at:fence.start()]), fence.group(0)]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


class Writer:
    """Copies pages, and files that they lead to."""

    def __init__(self, root: Path, out: Path) -> None:
        self.root, self.out = root, out
        self.files: set[str] = set()

    def place(self, target: str) -> str | None:
        """Where a file of the tree, named from its root, stands among the pages; nothing for one that is not there."""
        if target in PAGES:
            return f"{PAGES[target]}.md"
        path = self.root / target
        if target.startswith("docs/"):
            if path.is_file() and path.suffix not in (".md", *IMAGES):
                self.files.add(target)
            return target.removeprefix("docs/") if path.exists() else None
        if path.is_dir():
            return self.place(posixpath.join(target, "README.md")) if (path / "README.md").is_file() else None
        if not path.is_file() or path.stat().st_size > MOST_FILE:
            return None
        self.files.add(target)
        return f"files/{target}.txt" if path.suffix in (".md", "") else f"files/{target}"

    def page(self, name: str) -> None:
        """One page of the tree, named from its root."""
        here = self.place(name)
        text = (self.root / name).read_text(encoding="utf-8")

        def turned(match: re.Match) -> str:
            label, target = match.groups()
            if re.match(r"^(\w+:|//|#)", target):
                return match.group(0)
            file, mark, anchor = target.partition("#")
            goal = self.place(posixpath.normpath(posixpath.join(posixpath.dirname(name), file)))
            if goal is None:
                return label
            goal = posixpath.relpath(goal, posixpath.dirname(here))
            return f"{'!' if match.group(0).startswith('!') else ''}[{label}]({goal}{mark}{anchor})"

        text = outside_of_code(COMMENT.sub("", text), lambda part: LINK.sub(turned, part))
        text = re.sub(r"^```(\w+)$", lambda match: f"```{LEXERS.get(match[1], match[1])}", text, flags=re.M)
        path = self.out / here
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy_files(self) -> None:
        for name in sorted(self.files):
            path = self.out / self.place(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, path)


def links_of(text: str) -> list[str]:
    """Pages of docs that a text links, in its order, each once, without .md."""
    found = [target.partition("#")[0] for _, target in LINK.findall(text)]
    return list(dict.fromkeys(target.removesuffix(".md") for target in found if target.endswith(".md") and not target.startswith("..")))


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def sidebar(index: str, docs: Path) -> str:
    """The pages in the groups in which the index shows them; each stands in the first that has it."""
    seen: set[str] = {"papers/index", "reference/index"}
    made = []

    def group(caption: str, pages: list[str]) -> None:
        new = [page for page in dict.fromkeys(pages) if page not in seen and (docs / f"{page}.md").is_file()]
        seen.update(new)
        if new:
            made.append(toctree(caption, new))

    parts = re.split(r"^## ", index, flags=re.M)
    links = links_of(parts[0])
    group("Learn", [page for page in links if page.startswith("learn/")])
    group("How to", [page for part in parts[1:] for page in links_of(part) if page.startswith("how-to/")])
    topics = next(part for part in parts if part.startswith("By topic"))
    for row in re.findall(r"^\| ([^|]+) \| (.*) \|$", topics, re.M):
        group(row[0].capitalize(), links_of(row[1]))
    group("Measured", ["fidelity", "performance", *sorted(str(path.relative_to(docs).with_suffix("")) for path in docs.glob("fidelity/*.md"))])
    for room in ("reference", "papers"):
        seen.discard(f"{room}/index")
        group(room.capitalize(), [f"{room}/index", *sorted(f"{room}/{path.stem}" for path in (docs / room).glob("*.md"))])
    made.append(toctree("Project", list(PAGES.values())))
    left = sorted(str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md"))
    group("More", [page for page in left if page != "index"])
    return "".join(made)


def write(root: Path, out: Path) -> None:
    """Fills `out` with what Sphinx reads, but for its conf.py."""
    docs = root / "docs"
    writer = Writer(root, out)
    for path in docs.rglob("*"):
        if path.is_file() and path.suffix in IMAGES:
            target = out / path.relative_to(docs)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path, target)
    for path in sorted(docs.rglob("*.md")):
        writer.page(str(path.relative_to(root)))
    for name in PAGES:
        writer.page(name)
    writer.copy_files()
    index = out / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + sidebar((docs / "index.md").read_text(encoding="utf-8"), docs),
                     encoding="utf-8")
