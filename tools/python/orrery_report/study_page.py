"""The report of one study: what came of its points, the front, how it got there, what parameters do, every point.

`render(study)` is a pure function from a study (study_store.load) to the text of an HTML file; others may call it. A
point chosen in any tab shows its config, its measures and the command that repeats it.
"""

from __future__ import annotations

import shlex
from collections import Counter

import numpy as np

from orrery_plot import units
from orrery_plot.outcomes import axis_label
from orrery_plot.parameters import explains

from . import study_figures, tables
from .markup import Sheet, cards, document, escape, json_block, note, scrolled, table
from .overview import Card
from .study_digest import BEST, Points, Shown, best_rows, digest, rule, settings
from .study_digest import table as points_table
from .study_store import Study

MOST_REASONS = 15
MOST_LISTED = 200


def render(study: Study, library: str | None = None) -> str:
    """The report as HTML; `library`: address of plotly.js on the page's host, None to have it inside."""
    sheet, points = Sheet(), digest(study)
    sheet.tables["points"] = points_table(study, points)
    sheet.data["study"] = _study_data(study, points)
    sheet.tab("overview", "Overview", _overview(study, points))
    sheet.tab("front", "Front" if len(study.objectives) > 1 else "Points by figures", _front(study, points))
    if study.objectives:
        sheet.tab("progress", "Progress", _progress(study, sheet))
    sheet.tab("parallel", "Parallel coordinates", _parallel(study, points))
    if study.objectives:
        sheet.tab("parameters", "Parameters", _parameters(study, points, sheet))
    sheet.tab("points", "Points", _points(points))
    sheet.tab("study", "Study", _study(study))
    driver = study.driver if study.driver == "sweep" else f"driver {study.driver}"
    parts = (f"{units.count(len(study.points))} points", driver, study.title)
    status = ("complete", "good") if study.complete else ("under way", "odd")
    return document(sheet, study.name, " · ".join(parts), status, library)


def _study_data(study: Study, points: Points) -> dict:
    """What study.js and parallel.js read."""
    analysis = study.analysis or {}
    fault = analysis.get("study_fault")
    base = analysis.get("base", study.document.get("base"))
    scales = {p.get("name"): p.get("scale") for p in study.document.get("parameters", []) if isinstance(p, dict)}
    parameters, figures = points.of_kind("parameter", "derived"), points.of_kind("objective", "measure", "limit")
    ways = {o["name"]: o["maximise"] for o in study.objectives}
    axes = [{"column": p.name, "name": p.name, "log": scales.get(p.name) == "log"} for p in points.of_kind("parameter")]
    axes += [{"column": o.name, "name": f"{o.name}, {'max' if ways[o.column.heading] else 'min'}imised", "log": False}
             for o in points.of_kind("objective") if study.objectives]
    if not study.objectives:
        axes += [{"column": m.name, "name": m.name, "log": False} for m in points.of_kind("measure")]

    def named(shown: Shown) -> dict:
        detail = f" ({shown.column.detail})" if shown.column.kind == "measure" and shown.column.detail != shown.name else ""
        return {"name": shown.name, "label": shown.name + detail}

    return {"axes": axes, "best": "front" if len(study.objectives) > 1 else "best" if study.objectives else "ok",
            "parameters": [named(p) for p in parameters], "figures": [named(f) for f in figures],
            "settings": settings(study, points), "reasons": _reasons(points),
            "base": base if isinstance(base, dict) else {"base": base}, "base_note": _base_note(study, fault),
            "repeat": f"orrery run {shlex.quote(str(study.file))}",
            "repeat_note": f"Not possible now: {fault}." if fault else
            f"With {study.analysis['study_file']} as it is now; --out names the folder, --dry-run prints every default."
            if study.analysis else ""}


def _base_note(study: Study, fault: str | None) -> str:
    if fault or not study.analysis:
        return "The base as the study states it, with the settings of the point marked; what it inherits from other files is not available."
    return "The base of the study, with the settings of the point marked; everything else has its default."


def _reasons(points: Points) -> dict[int, str]:
    """Why rows of the table have no result."""
    column = points.frame["reason"].iloc[points.kept]
    return {row: str(reason) for row, reason in enumerate(column) if isinstance(reason, str) and reason}


def _overview(study: Study, points: Points) -> str:
    counts = Counter(points.standing.tolist())
    best, total = counts["front"] + counts["best"], len(study.points)
    feasible = best + counts["feasible"] + counts["ok"]

    def share(n: int) -> str:
        return f"{units.percent(n / total)} of the points"

    members = [Card("Points", units.count(total), "", _expected(study)),
               Card("Runs", units.count(study.runs), "", "distinct configs"),
               Card("Feasible" if study.objectives else "With a result", units.count(feasible), "", share(feasible))]
    members += [Card(name, units.count(counts[key]), "", share(counts[key])) for name, key in (
        ("Over a limit", "over a limit"), ("Infeasible", "infeasible"), ("Failed", "failed"), ("Shorter runs", "shorter run"))
        if counts[key] or key in ("infeasible", "failed")]
    if len(study.objectives) > 1:
        members.append(Card("Front", units.count(counts["front"]), "", "not dominated by any point"))
    out = cards("Outcomes of the points", members)
    out += _best(study, points)
    facts = [["Title", study.title], ["Driver", study.driver], ["Searches", f"{int(study.points['repeat'].max()) + 1}"],
             ["State", "complete" if study.complete else "under way, or stopped before its end"]]
    facts += [["Objective", axis_label(o)] for o in study.objectives]
    facts += [["Limit", _limit(limit)] for limit in study.document.get("limits", []) if isinstance(limit, dict)]
    return (f'<div class="columns"><div>{out}</div><aside><h3>What was searched</h3>{table((), facts, "plain pairs")}'
            f"{_why(points)}</aside></div>")


def _expected(study: Study) -> str:
    search = study.document.get("search")
    if study.facts["mode"] == "sweep" or not isinstance(search, dict):
        return "of the sweep" if study.complete else "of the sweep, so far"
    budget = search.get("budget", 100) * search.get("repeats", 1)
    return f"of a budget of {units.count(budget)}" if isinstance(budget, int) else ""


def _limit(limit: dict) -> str:
    bounds = [f"{word} {units.setting(limit[word], '') if units.is_number(limit[word]) else limit[word]}"
              for word in ("most", "least") if word in limit]
    return f"{limit.get('name', limit.get('value'))}: {limit.get('value')} at {', '.join(bounds)}"


def _best(study: Study, points: Points) -> str:
    """The best point of each objective, or the ten best of one."""
    if not study.objectives:
        return note("The study has no objectives, so none of its points is best.")
    place = {int(row): i for i, row in enumerate(points.kept)}
    among = np.isin(points.standing, ("front", "best", "feasible"))
    if not among.any():
        return note("No point with a result meets every limit, so none is best.")
    shown = points.of_kind("objective") + points.of_kind("parameter")
    rows = []
    if len(study.objectives) == 1:
        chosen, heads = [(f"{k + 1}.", row) for k, row in enumerate(best_rows(study, among))], "rank"
    else:
        chosen, heads = [], "best"
        for objective, column in zip(study.objectives, study.of_kind("objective")):
            values = points.frame[column.name].to_numpy(dtype=float).copy()
            values[~among] = -np.inf if objective["maximise"] else np.inf
            chosen.append((objective["name"], int(np.argmax(values) if objective["maximise"] else np.argmin(values))))
    for name, row in chosen:
        cells = "".join(f"<td>{escape(_text(points.frame[one.column.name].iloc[row], one.unit))}</td>" for one in shown)
        rows.append(f'<tr><th scope="row">{escape(name)}</th><td>{_button(points, place, int(row))}</td>{cells}</tr>')
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in (heads, "point", *(one.name for one in shown)))
    return (f"<h3>{'Best of each objective' if len(study.objectives) > 1 else f'The best {len(rows)} points'}</h3>"
            + scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>", "Best points"))


def _button(points: Points, place: dict[int, int], row: int) -> str:
    number = int(points.frame["id"].iloc[row])
    return f'<button type="button" class="link" data-point="{place[row]}" aria-label="Point {number}">{number:,}</button>'


def _text(value: object, unit: str) -> str:
    if isinstance(value, str):
        return value.removeprefix("catalog:")
    return units.setting(float(value), unit) if value is not None and value == value else units.MISSING


def _why(points: Points) -> str:
    """Points without a result by reason; limits by how many points break them."""
    frame, out = points.frame, ""
    broken = [(one.column.heading, int((frame[one.column.name] > 0).sum())) for one in points.of_kind("limit")]
    if any(count for _, count in broken):
        out += "<h3>Broken limits</h3>" + table(("limit", "points"), [[name, units.count(n)] for name, n in broken if n])
    bad = frame[frame["status"] != "ok"]
    if len(bad):
        reasons = Counter(zip(bad["status"], bad["reason"].fillna("no reason given"))).most_common()
        rows = [[f"{status}: {reason}", units.count(n)] for (status, reason), n in reasons[:MOST_REASONS]]
        if len(reasons) > MOST_REASONS:
            rows.append([f"{units.count(len(reasons) - MOST_REASONS)} other reasons",
                         units.count(sum(n for _, n in reasons[MOST_REASONS:]))])
        out += "<h3>Points without a result</h3>" + table(("reason", "points"), rows, "reasons")
    return out


def _front(study: Study, points: Points) -> str:
    figures = [one.name for one in points.of_kind("objective")] + [one.name for one in points.of_kind("measure")]
    if len(figures) < 2:
        figures = figures[:1] + [one.name for one in points.of_kind("parameter")][:1] if figures else []
        figures.reverse()
    if not len(points.drawn):
        return note("No point has a result: there is nothing to draw.")
    x, y = (figures * 2)[:2] if figures else ("point", "point")
    out = (f'<figure class="explorer" data-explorer="points" data-x="{escape(x)}" data-y="{escape(y)}" '
           f'data-by="standing"></figure><p class="caption">Click a point to see its config and how to repeat it. Axes: any two '
           "objectives, measures or parameters; of two objectives the dotted line borders what is attained. "
           f"{escape(rule(points))}</p>")
    best = "front" if len(study.objectives) > 1 else "best"
    rows = [int(row) for row in np.flatnonzero(points.standing == best)]
    if not rows:
        return out
    order = points.of_kind("objective")[0].column.name if study.objectives else ""
    rows.sort(key=lambda row: points.frame[order].iloc[row])
    place = {int(row): i for i, row in enumerate(points.kept)}
    shown = points.of_kind("objective") + points.of_kind("parameter")
    body = "".join(f'<tr><td>{_button(points, place, row)}</td>' + "".join(
        f"<td>{escape(_text(points.frame[one.column.name].iloc[row], one.unit))}</td>" for one in shown) + "</tr>"
        for row in rows[:MOST_LISTED])
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in ("point", *(one.name for one in shown)))
    more = f" The first {MOST_LISTED} by the first objective; the tab Points has all." if len(rows) > MOST_LISTED else ""
    word = f"{units.count(len(rows))} points of the front" if best == "front" else f"The best {BEST} points"
    return out + f"<h3>{word}.{more}</h3>" + scrolled(
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", "Points of the front")


def _progress(study: Study, sheet: Sheet) -> str:
    searches = len(study.analysis["searches"])
    several = f"Median over {searches} independent searches, quartiles shaded. " if searches > 1 else ""
    volume = "The hypervolume is what lies between the front and a reference a tenth of its range behind it." \
        if study.joint and study.joint["joint_volume"] else ""
    return sheet.figure("progress", "Progress by number of points", escape(several + volume),
                        study_figures.progress([study], [study.name]))


def _parallel(study: Study, points: Points) -> str:
    if not len(points.drawn):
        return note("No point has a result: there is nothing to draw.")
    return ('<div class="parallel" data-parallel="points"></div><p class="caption">Drag along an axis to choose a stretch of it; '
            "a click lets go. With the keyboard: Tab to an axis, Enter, then arrows; Escape lets go. Points over a limit are "
            f"left out. {escape(rule(points))}</p>")


def _parameters(study: Study, points: Points, sheet: Sheet) -> str:
    out = ""
    objectives = points.of_kind("objective")
    for k, (objective, found) in enumerate(zip(study.objectives, study.analysis["analysis"]["objectives"])):
        importance = found["importance"]
        label = axis_label(objective)
        found_any, trials = explains(importance), units.count(importance["trials"])
        model = "A Gaussian process" if importance.get("model") == "process" else "A random forest"
        if found_any:
            caption = (f"{model} of {trials} points explains {100 * importance['explained']:.0f} % of"
                       " the variance of unseen points; its importances are only as reliable as that.")
            out += sheet.figure(f"importance-{k}", f"Importance for {label}", escape(caption),
                                study_figures.importance(importance))
            drawn = study_figures.interactions(importance)
            if drawn:
                out += sheet.figure(f"pairs-{k}", f"Interactions, for {label}", "Diagonal: the main effect of a parameter. "
                                    "Below it: what a pair explains beyond the two alone.", drawn)
        elif importance["parameters"]:
            out += note(f"{label}: importance cannot be determined. {model} of {trials} points explains "
                        "nothing of unseen points; more points, or more evenly spread ones, may help.")
        else:
            out += note(f"{label}: {trials} points with a result are too few to determine importance.")
        ranked = sorted(importance["parameters"], key=lambda p: -(p["permutation"] or 0)) if found_any else []
        order = [p["parameter"] for p in ranked]
        if len(points.drawn) and points.of_kind("parameter"):
            out += sheet.figure(f"effects-{k}", f"Main effects on {label}", "Mean over all points at each value (many values: in "
                                "eight bins), bars from quartile to quartile; other differences between the points are not "
                                "removed.", study_figures.main_effects(points, objectives[k], order, objective["name"]))
    return out


def _points(points: Points) -> str:
    left = len(points.frame) - len(points.kept)
    less = (f" {units.count(left)} points are left out here: the front and an even sample of the others are shown, `orrery export` "
            "has all.") if left else ""
    return (tables.grid("points", "Points", pick=True)
            + '<p class="caption">Click a column head to sort, a row to see the point. Filters of numbers: <code>&gt;5</code>, '
            "<code>&lt;=0.1</code>, <code>2..4</code>, <code>512</code>, <code>none</code>; of texts: a part of it, or "
            f"<code>=text</code>.{escape(less)}</p>")


def _study(study: Study) -> str:
    names = {"study": "Study", "mode": "Mode", "hash": "Hash", "version": "Version", "build": "Build", "source": "Study file",
             "set": "Changes to it"}
    facts = [["Store", str(study.file)]] + [[name, study.facts[key]] for key, name in names.items() if key in study.facts]
    file = shlex.quote(str(study.file))
    commands = [["best points", f"orrery best {file}"], ["the same in a terminal", f"orrery analyse {file}"],
                ["all points as CSV", f"orrery export {file}"]]
    inputs = "<h3>Files that its runs read</h3>" + table(("file", "digest"), [list(row) for row in study.inputs], "plain") \
        if study.inputs else ""
    return (f'<h3>Store</h3>{table((), facts, "plain pairs")}<h3>Commands</h3>{table((), commands, "plain pairs commands")}'
            f"<h3>The study</h3>{json_block(study.document)}{inputs}")
