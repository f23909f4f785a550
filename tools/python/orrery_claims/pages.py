"""The pages of docs/papers, from what `orrery reproduce --json` prints: a page a system, and the table of its index.

    python3 pages.py CLAIMS.json docs/papers [--png]

A page has the forest plot of its system, the figure of each study, and a table a study. With --png the forest plots are
drawn into figures/. Pages of systems that are gone are removed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
MADE = "<!-- made by tools/update_claims -->"


def slug(system: str) -> str:
    """The name of a system's page: "Prefill/decode disaggregation" is prefill-decode-disaggregation."""
    return re.sub(r"[^a-z0-9]+", "-", system.split(" (")[0].lower().replace("++", "-plus")).strip("-")


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def band(expected: list) -> str:
    low, high = expected
    if low is None:
        return f"<= {number(high)}"
    if high is None:
        return f">= {number(low)}"
    return f"{number(low)} to {number(high)}"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def tied(claim: dict) -> bool:
    """Whether a published figure ties the claim from both sides (Claim::tied in experiments/claims/claim_study.hpp)."""
    low, high = claim["expected"]
    return claim["basis"] == "published" and low is not None and high is not None and low < high


def verdict(claim: dict) -> str:
    if not claim["holds"]:
        return "not judged" if claim["simulated"] is None else "**missed**"
    return "holds by construction" if claim["basis"] == "construction" else "holds"


def by_page(claims: list[dict]) -> dict[str, list[dict]]:
    """Claims by the page that they stand on. Systems that differ only in brackets share one."""
    pages: dict[str, list[dict]] = {}
    for claim in claims:
        pages.setdefault(slug(claim["system"]), []).append(claim)
    return dict(sorted(pages.items()))


def explained(docs: Path, studies: list[str]) -> list[Path]:
    """Pages of docs/explain and docs/how-to that name one of the studies."""
    found = []
    for path in sorted([*docs.glob("explain/*.md"), *docs.glob("how-to/*.md")]):
        text = path.read_text(encoding="utf-8")
        if any(re.search(rf"(?<![\w-]){re.escape(study)}(?![\w-])", text) for study in studies):
            found.append(path)
    return found


def heading(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").replace("`", "")


def page(name: str, claims: list[dict], titles: dict[str, str], docs: Path) -> str:
    """The page of one system, as Markdown."""
    system = claims[0]["system"].split(" (")[0]
    studies = list(dict.fromkeys(claim["study"] for claim in claims))
    held = sum(claim["holds"] for claim in claims)
    lines = [MADE, f"# {system}: what is claimed, and what comes out", "",
             f"{held} of {len(claims)} claims hold. `orrery reproduce {' '.join(studies)}` runs them. [What a claim is](index.md).", ""]
    about = explained(docs, studies)
    if about:
        lines += ["Described in " + ", ".join(f"[{heading(path)}](../{path.relative_to(docs)})" for path in about) + ".", ""]
    lines += [f"![Claims of {system}: what is simulated against the band that is expected](figures/{name}-forest.png)", ""]
    for study in studies:
        lines += [f"## {study}", "", f"{titles.get(study, '')} ([the study](../../experiments/studies/{study}.json)).".strip(), "",
                  "| claim | source | expected | simulated | | note |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [f"| {cell(claim['claim'])} | {cell(claim['source'])} | {band(claim['expected'])} | {number(claim['simulated'])} | "
                  f"{verdict(claim)} | {cell(claim['note'])} |" for claim in claims if claim["study"] == study]
        lines += ["", f"![{study}: measures by variant, claims with their bands](figures/{study}.png)", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def table(claims: list[dict]) -> str:
    """The table of the index: a row a page."""
    held = sum(claim["holds"] for claim in claims)
    ties = sum(map(tied, claims))
    tied_held = sum(claim["holds"] for claim in claims if tied(claim))
    lines = [f"{len(claims)} claims of {len(by_page(claims))} systems: {held} hold, {len(claims) - held} do not. Tied to a published "
             f"figure from both sides: {tied_held} of {ties} hold. Others (signs, orders, bounds of ours, controls, checks): "
             f"{held - tied_held} of {len(claims) - ties}.", "",
             "| system | hold | tied to a figure | studies |", "| --- | --- | --- | --- |"]
    for name, own in by_page(claims).items():
        two_sided = [claim for claim in own if tied(claim)]
        figures = f"{sum(claim['holds'] for claim in two_sided)} of {len(two_sided)}" if two_sided else ""
        studies = ", ".join(f"`{study}`" for study in dict.fromkeys(claim["study"] for claim in own))
        lines.append(f"| [{own[0]['system'].split(' (')[0]}]({name}.md) | {sum(claim['holds'] for claim in own)} of {len(own)} | "
                     f"{figures} | {studies} |")
    return "\n".join(lines) + "\n"


def rewrite(text: str, made: str) -> str:
    """The page with the text between the two marks."""
    if BEGIN not in text or END not in text:
        raise SystemExit(f"expected the marks {BEGIN} and {END} in the page")
    return text[: text.index(BEGIN) + len(BEGIN)] + "\n" + made + text[text.index(END):]


def titles_of(studies: Path) -> dict[str, str]:
    """Titles of the studies that ship, by name."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in studies.glob("*.json")}
    return {name: file.get("title", "") for name, file in files.items()}


def write(claims: list[dict], folder: Path, draw: bool) -> None:
    docs = folder.parent
    titles = titles_of(docs.parent / "experiments/studies")
    made = {f"{name}.md": page(name, own, titles, docs) for name, own in by_page(claims).items()}
    for path in folder.glob("*.md"):
        if path.name not in made and path.read_text(encoding="utf-8").startswith(MADE):
            path.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    index = folder / "index.md"
    index.write_text(rewrite(index.read_text(encoding="utf-8"), table(claims)), encoding="utf-8")
    if draw:
        import forest  # needs matplotlib

        for name, own in by_page(claims).items():
            forest.save_forest(own, folder / "figures" / f"{name}-forest.png")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="pages", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--png", action="store_true", help="draw the forest plots")
    options = parser.parse_args(arguments)
    write(json.loads(options.claims.read_text(encoding="utf-8"))["claims"], options.folder, options.png)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
