"""The table of claims in docs/claims.md, from what `orrery reproduce --json` prints.

    python3 table.py CLAIMS.json docs/claims.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"


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


def table(claims: list[dict]) -> str:
    """Markdown: a heading and a table a study."""
    lines = []
    held = sum(claim["holds"] for claim in claims)
    lines += [f"{len(claims)} claims: {held} hold, {len(claims) - held} do not."]
    tied_held = sum(claim["holds"] for claim in claims if tied(claim))
    ties = sum(tied(claim) for claim in claims)
    lines += [f"Tied to a published figure from both sides: {tied_held} of {ties} hold; "
              f"others (signs, orders, bounds of ours, controls, checks): {held - tied_held} of {len(claims) - ties}.", ""]
    for study in dict.fromkeys(claim["study"] for claim in claims):
        own = [claim for claim in claims if claim["study"] == study]
        lines += [f"### {own[0]['system']} ([{study}](../experiments/studies/{study}.json), [figure](claims/{study}.png))", ""]
        lines += ["| claim | source | expected | simulated | | note |", "| --- | --- | --- | --- | --- | --- |"]
        for claim in own:
            word = ("holds by construction" if claim["basis"] == "construction" else "holds") if claim["holds"] else "**missed**" if claim["simulated"] is not None else "not judged"
            lines.append(f"| {cell(claim['claim'])} | {cell(claim['source'])} | {band(claim['expected'])} | "
                         f"{number(claim['simulated'])} | {word} | {cell(claim['note'])} |")
        lines.append("")
    return "\n".join(lines)


def rewrite(page: str, text: str) -> str:
    """The page with the text between the two marks."""
    if BEGIN not in page or END not in page:
        raise SystemExit(f"expected the marks {BEGIN} and {END} in the page")
    return page[: page.index(BEGIN) + len(BEGIN)] + "\n" + text + page[page.index(END):]


def main(arguments: list[str]) -> int:
    claims = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))["claims"]
    path = Path(arguments[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8"), table(claims)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
