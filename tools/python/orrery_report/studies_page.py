"""Several studies side by side: their fronts over each other, what each has of the joint front, and how soon.

`render(studies)` is a pure function over studies that were loaded together (study_store.load_several), which gives them
one reference and one joint front.
"""

from __future__ import annotations

import numpy as np

from orrery_plot import palette, units
from orrery_plot.outcomes import axis_label, scale_of, unit_of

from . import study_figures
from .compare_page import names_of, swatch
from .figures import Figure, _axis, _layout, literal, numbers
from .markup import Sheet, document, escape, json_block, note, scrolled, table
from .study_digest import MOST_DRAWN, even
from .study_store import Study

SHARES = (50, 80, 90, 95, 99)  # % of the joint volume
SYMBOLS = ("diamond", "square", "circle", "triangle-up", "triangle-down", "cross")


def render(studies: list[Study], library: str | None = None) -> str:
    """The comparison as HTML; `library`: address of plotly.js on the page's host, None to have it inside."""
    sheet, names = Sheet(), names_of(studies)
    sheet.tab("overview", "Overview", _overview(studies, names))
    if len(studies[0].objectives) > 1:
        sheet.tab("front", "Fronts", _fronts(studies, names, sheet))
    figure = study_figures.progress(studies, names)
    caption = "Medians over a study's independent searches, quartiles shaded. The hypervolume of all is measured from one " \
        "reference, a tenth of the joint front's range behind it."
    sheet.tab("progress", "Progress", sheet.figure("progress", "Progress by number of points", caption, figure)
              + _attained(studies, names))
    sheet.tab("study", "Studies", "".join(f"<h3>{swatch(i)}{escape(name)}</h3>{json_block(study.document)}"
                                          for i, (name, study) in enumerate(zip(names, studies))))
    return document(sheet, " · ".join(names), f"{len(studies)} studies side by side", None, library)


def _last(values: list[list], unit: str = "") -> str:
    """Median of the last values of searches, with the quartiles of several."""
    known = [float(curve[-1]) for curve in values if curve and curve[-1] is not None]
    if not known:
        return units.MISSING
    low, middle, high = (units.text(float(v), unit) for v in np.quantile(known, (0.25, 0.5, 0.75)))
    return middle + (f" ({low} … {high})" if len(known) > 1 else "")


def _overview(studies: list[Study], names: list[str]) -> str:
    objectives, joint = studies[0].objectives, studies[0].joint or {}
    several = len(objectives) > 1
    heads = ["study", "driver", "searches", "points", "feasible"]
    heads += ["front", "of the joint front", "% of the joint volume"] if several else []
    heads += [f"best {o['name']}" for o in objectives]
    rows = ""
    for i, (study, name) in enumerate(zip(studies, names)):
        store = study.analysis
        cells = [study.driver, str(len(store["searches"])), units.count(len(study.points)),
                 units.count(store["analysis"]["trials"]["feasible"])]
        if several:
            share = [[value] for value in store["joint_volume_percent"]]
            cells += [units.count(len(store["analysis"]["front"])),
                      f"{units.count(store['of_joint_front'])} of {units.count(joint['joint_front'])}", _last(share)]
        cells += [_last([search["best_so_far"][k] for search in store["searches"]], unit_of(objective))
                  for k, objective in enumerate(objectives)]
        rows += f'<tr><th scope="row">{swatch(i)}{escape(name)}</th>' + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>"
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    facts = [["Objective", axis_label(o)] for o in objectives]
    if several and joint.get("joint_volume"):
        facts += [["Joint volume", units.text(joint["joint_volume"], "", 5)],
                  ["Reference point", ", ".join(f"{o['name']} {units.text(float(v), unit_of(o), 4)}"
                                              for o, v in zip(objectives, joint["reference"]))]]
    titles = {study.title for study in studies}
    return ("<h3>Studies</h3>" + scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>", "Studies")
            + ('<p class="caption">Median of independent searches (lower … upper quartile).</p>'
               if any(len(s.analysis["searches"]) > 1 for s in studies) else "")
            + "<h3>What is compared</h3>" + table((), [["Title", title] for title in sorted(titles)] + facts, "plain pairs"))


def _fronts(studies: list[Study], names: list[str], sheet: Sheet) -> str:
    objectives, out = studies[0].objectives, ""
    for x in range(len(objectives)):
        for y in range(x + 1, len(objectives)):
            caption = "Diamonds and other large marks: the front of each study; small dots: an even sample of its other feasible " \
                "points. Lines bound the region that a study attains in these two objectives."
            out += sheet.figure(f"front-{x}-{y}", f"{objectives[y]['name']} against {objectives[x]['name']}", caption,
                                _front(studies, names, x, y))
    return out


def _front(studies: list[Study], names: list[str], x: int, y: int) -> Figure:
    objectives = studies[0].objectives
    known = [_objectives_of(study, (x, y)) for study in studies]
    scales = [scale_of(objectives[k], np.concatenate([values[j] for values in known])) for j, k in enumerate((x, y))]
    titles = [literal(axis_label(objectives[k], unit)) for k, (_, unit) in zip((x, y), scales)]
    layout = _layout(520, xaxis=_axis(titles[0], tickformat=",~g"), yaxis=_axis(titles[1], tickformat=",~g"))
    data: list[dict] = []
    for i, (study, name) in enumerate(zip(studies, names)):
        colour, label = palette.colour(i), literal(name)
        frame = study.points
        at_x, at_y = (values * factor for values, (factor, _) in zip(known[i], scales))
        front = np.array([row["trial"] - 1 for row in study.analysis["analysis"]["front"]], dtype=int)
        feasible = np.flatnonzero((frame["status"] == "ok") & (frame["violation"] == 0) & (frame["fidelity"] == 1))
        rest = even(np.setdiff1d(feasible, front), MOST_DRAWN // len(studies))
        for rows, mode in ((rest, "rest"), (front, "front")):
            ids = frame["id"].to_numpy()[rows]
            data.append({
                "type": "scatter", "mode": "markers", "name": label, "legendgroup": str(i), "showlegend": mode == "front",
                "x": numbers(at_x[rows]), "y": numbers(at_y[rows]), "text": [str(n) for n in ids],
                "marker": {"color": colour, "size": 9 if mode == "front" else 3.5, "opacity": 1 if mode == "front" else 0.35,
                           "symbol": SYMBOLS[i % len(SYMBOLS)] if mode == "front" else "circle",
                           "line": {"width": 0.8 if mode == "front" else 0, "color": palette.INK}},
                "hovertemplate": f"point %{{text}}<br>%{{x:,.5~g}}, %{{y:,.5~g}}<extra>{label}</extra>"})
        data.append(_border(at_x[front], at_y[front], objectives[x]["maximise"], objectives[y]["maximise"], i))
    return {"data": data, "layout": layout}


def _objectives_of(study: Study, places: tuple[int, ...]) -> list[np.ndarray]:
    columns = study.of_kind("objective")
    return [study.points[columns[k].name].to_numpy(dtype=float) for k in places]


def _border(x: np.ndarray, y: np.ndarray, more_x: bool, more_y: bool, i: int) -> dict:
    """The border of what the points attain in two objectives."""
    signs = (-1 if more_x else 1, -1 if more_y else 1)
    best: list[int] = []
    for k in np.lexsort((signs[1] * y, signs[0] * x)):
        if not best or signs[1] * y[k] < signs[1] * y[best[-1]]:
            best.append(int(k))
    return {"type": "scatter", "mode": "lines", "x": numbers(x[best]), "y": numbers(y[best]), "showlegend": False,
            "legendgroup": str(i), "hoverinfo": "skip",
            "line": {"shape": "hv", "color": palette.colour(i), "width": 1.4,
                     "dash": study_figures.DASHES[i % len(study_figures.DASHES)]}}


def _attained(studies: list[Study], names: list[str]) -> str:
    """After how many points searches reached shares of the joint volume."""
    volume = (studies[0].joint or {}).get("joint_volume")
    if not volume:
        return note("With one objective, or without a feasible point, there is no volume to attain.")
    rows = []
    for study, name in zip(studies, names):
        cells = []
        for share in SHARES:
            reached = [next((k + 1 for k, v in enumerate(s["hypervolume"]) if v is not None and v >= share / 100 * volume), None)
                       for s in study.analysis["searches"]]
            known = [n for n in reached if n is not None]
            middle = float(np.median([n if n is not None else np.inf for n in reached]))
            cells.append((f"{middle:,.0f}" if np.isfinite(middle) else units.MISSING) + f" ({len(known)} of {len(reached)})")
        rows.append([name, *cells])
    return "<h3>Attainment: points needed for a share of the joint volume (searches that reached it)</h3>" + table(
        ("study", *(f"{share}\N{NO-BREAK SPACE}%" for share in SHARES)), rows)
