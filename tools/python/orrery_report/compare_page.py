"""Several runs side by side: every figure with its difference to the first run, curves over each other, configs compared.

`render(runs)` is a pure function; the first run is what the others are compared with. Green is better, orange worse, where
a figure has a direction (figure_ways); what has none is only told.
"""

from __future__ import annotations

import json

from orrery_plot import palette, units

from . import compare_figures, figure_ways, overview
from .markup import Sheet, document, escape, note, scrolled, table
from .run_folder import Run

MISSING = object()
MOST_TOLD = 3  # settings in a run's name
LONGEST = 60  # characters of one


def names_of(things: list) -> list[str]:
    """What each is called: its file's or folder's name, with as much of the path as tells them apart."""
    paths = [(thing.folder if isinstance(thing, Run) else thing.file).resolve() for thing in things]
    paths = [path.with_suffix("") if path.suffix == ".sqlite" else path for path in paths]
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths) and depth < 12:
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def labels_of(runs: list[Run]) -> list[str]:
    """What each run is called by what sets it apart: up to MOST_TOLD settings with their values. Names of folders where no so few
    settings tell all of them apart."""
    found = [_leaves(run.config) for run in runs]
    paths = list(dict.fromkeys(path for leaves in found for path in leaves))
    texts = {path: [_told(leaves.get(path, MISSING)) for leaves in found] for path in paths}
    # Those that split the runs into most groups first, of equals as the config has them.
    differ = sorted((path for path in paths if len(set(texts[path])) > 1 and path not in ("title", "kind")),
                    key=lambda path: (path.endswith("seed"), -len(set(texts[path]))))
    chosen: list[str] = []
    for path in differ[:MOST_TOLD] if len(differ) <= MOST_TOLD else differ:
        split = len({tuple(texts[p][i] for p in chosen) for i in range(len(runs))})
        more = len({tuple(texts[p][i] for p in (*chosen, path)) for i in range(len(runs))})
        if more > split or len(differ) <= MOST_TOLD:
            chosen.append(path)
        if len(chosen) == MOST_TOLD or (more == len(runs) and len(differ) > MOST_TOLD):
            break
    chosen.sort(key=paths.index)
    labels = [", ".join(f"{_short(path, chosen)} {texts[path][i]}" for path in chosen) for i in range(len(runs))]
    return labels if chosen and len(set(labels)) == len(runs) and max(map(len, labels)) <= LONGEST else names_of(runs)


def _short(path: str, among: list[str]) -> str:
    """The end of a path that no other of them has; numbers of a list are no end."""
    pieces = path.split(".")
    words = [piece for piece in pieces if not piece.isdigit()]
    for size in range(1, len(words)):
        end = " ".join(words[-size:])
        if sum([p for p in other.split(".") if not p.isdigit()][-size:] == words[-size:] for other in among) == 1:
            return end.replace("_", " ")
    return path


def _told(value: object) -> str:
    """A setting in a few characters."""
    if value is MISSING:
        return "not set"
    return value.removeprefix("catalog:").removesuffix(".json") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def swatch(i: int) -> str:
    return f'<span class="swatch" style="background:{palette.colour(i)}"></span>'


def render(runs: list[Run], library: str | None = None) -> str:
    """The comparison as HTML; `library`: address of plotly.js on the page's host, None to have it inside."""
    sheet, names = Sheet(), labels_of(runs)
    sheet.tab("overview", "Figures", _runs(runs, names) + _figures(runs, names))
    for key, title, heading, caption, draw in (
            ("latency", "Latency", "Latency distributions", "Click a name to hide a run, double-click to see it alone.",
             compare_figures.latency),
            ("time", "Over time", "State over simulated time", "One line per replica, or their mean if there are many; many "
             "samples are averaged over time intervals.", compare_figures.over_time),
            ("energy", "Energy & time", "By operator class", "Sums over devices, idle included.", compare_figures.by_class)):
        figure = draw(runs, names)
        if figure is not None:
            absent = [name for name, run in zip(names, runs) if not _has(run, key)]
            more = f" No such data in {escape('; '.join(absent))}." if absent else ""
            sheet.tab(key, title, sheet.figure(key, heading, caption + more, figure))
    sheet.tab("config", "Configs", _configs(runs, names))
    return document(sheet, " · ".join(names), f"{len(runs)} runs side by side, compared with {names[0]}", None, library)


def _has(run: Run, key: str) -> bool:
    return bool({"latency": run.cdfs, "time": run.series is not None and run.series.lines,
                 "energy": run.energy is not None and len(run.energy.by_class)}[key])


def _runs(runs: list[Run], names: list[str]) -> str:
    rows = "".join(f'<tr><th scope="row">{swatch(i)}{escape(name)}</th><td>{escape(folder)}</td><td>{escape(run.summary["status"])}</td>'
                   f"<td>{escape(str(run.config.get('system', 'serving')))}</td><td>{escape(overview.headline(run))}</td></tr>"
                   for i, (name, folder, run) in enumerate(zip(names, names_of(runs), runs)))
    reasons = "".join(note(f"{name} is infeasible: {run.summary.get('reason') or 'no reason given'}")
                      for name, run in zip(names, runs) if run.infeasible)
    head = "".join(f'<th scope="col">{h}</th>' for h in ("run", "folder", "status", "system", "what"))
    return "<h3>Runs</h3>" + scrolled(
        f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>', "Runs") + reasons


def _figures(runs: list[Run], names: list[str]) -> str:
    """Every figure of any run, by section of the summary."""
    found = [figure_ways.figures(run.summary) for run in runs]
    paths = list(dict.fromkeys(path for figures in found for path in figures if path not in ("status", "reason")))
    section, body, zeros = "", "", 0
    for path in paths:
        values = [figures.get(path) for figures in found]
        if not any(units.is_number(value) for value in values):
            continue
        if not any(values):  # of a feature that is off in all of them
            zeros += 1
            continue
        head = path.split(".")[0]
        if "." in path and head != section:
            body += f'<tr class="section differs"><th scope="rowgroup" colspan="{1 + len(runs)}">{escape(head)}</th></tr>'
        section = head if "." in path else ""
        differs = any(value != values[0] for value in values[1:])
        cells = f"<td>{escape(overview.figure_text(path, values[0]))}</td>"
        cells += "".join(_cell(path, values[0], value) for value in values[1:])
        body += (f'<tr class="{"differs" if differs else ""}"><th scope="row">{escape(path)}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col">{swatch(i)}{escape(name)}</th>' for i, name in enumerate(names))
    only = '<label><input type="checkbox" data-only="figures-table"> only figures that differ</label>'
    return (f'<div class="figure-head"><h3>Figures, with the difference to {escape(names[0])}</h3>{only}</div>'
            f'<p class="caption"><span class="better">▲▼ better</span>, <span class="worse">▲▼ worse</span>; figures without '
            "a colour are neither.</p>"
            + scrolled(f'<table class="compare" id="figures-table"><thead><tr><th scope="col">figure</th>{heads}</tr></thead>'
                       f"<tbody>{body}</tbody></table>", "Figures of the runs")
            + (f'<p class="caption">{zeros} figures are left out here, because they are 0 in every run.</p>' if zeros else ""))


def _cell(path: str, first: object, value: object) -> str:
    """A value with how far it is from the first run's."""
    text = escape(overview.figure_text(path, value))
    if not units.is_number(first) or not units.is_number(value):
        return f"<td>{text}</td>"
    change = value - first
    if change == 0:
        return f'<td>{text}<span class="delta">=</span></td>'
    way = figure_ways.direction(path) * (1 if change > 0 else -1)
    kind = {1: "better", -1: "worse", 0: ""}[way]
    sign, arrow = ("+", "▲") if change > 0 else ("−", "▼")
    share = f", {sign}{units.plain(100 * abs(change / first))}\N{NO-BREAK SPACE}%" if first else ""
    size = overview.figure_text(path, abs(change))
    word = f'<span class="off">{kind}</span>' if kind else ""
    return f'<td>{text}<span class="delta {kind}">{arrow} {sign}{escape(size)}{share}{word}</span></td>'


def _leaves(value: object, path: str = "") -> dict[str, object]:
    """Everything in a config that holds nothing itself, by dotted path."""
    if isinstance(value, dict) and value:
        items = value.items()
    elif isinstance(value, list) and value:
        items = enumerate(value)
    else:
        return {path: value}
    out: dict[str, object] = {}
    for key, item in items:
        out |= _leaves(item, f"{path}.{key}" if path else str(key))
    return out


def _configs(runs: list[Run], names: list[str]) -> str:
    """What differs between the configs, then all of them."""
    found = [_leaves(run.config) for run in runs]
    paths = list(dict.fromkeys(path for leaves in found for path in leaves))
    differ = [path for path in paths if any(leaves.get(path, MISSING) != found[0].get(path, MISSING) for leaves in found)]
    heads = "".join(f'<th scope="col">{swatch(i)}{escape(name)}</th>' for i, name in enumerate(names))

    def rows(chosen: list[str], mark: bool) -> str:
        body = "".join(f'<tr class="{"differs" if mark and path in differs else ""}"><th scope="row">{escape(path)}</th>'
                       + "".join(f"<td>{_leaf(leaves.get(path, MISSING))}</td>" for leaves in found) + "</tr>"
                       for path in chosen)
        return scrolled(f'<table class="config-diff"><thead><tr><th scope="col">path</th>{heads}</tr></thead>'
                        f"<tbody>{body}</tbody></table>", "Configs")

    differs = set(differ)
    top = rows(differ, False) if differ else note("The configs are the same.")
    facts = [[key, *(str(run.manifest.get(key, units.MISSING)) for run in runs)]
             for key in ("version", "build", "compiler", "host", "seed") if any(key in run.manifest for run in runs)]
    same = [row for row in facts if len(set(row[1:])) > 1]
    built = "<h3>Runs of different builds or hosts</h3>" + table(("", *names), same, "plain") if same else ""
    return (f"<h3>{len(differ):,} settings that differ</h3>{top}{built}"
            f'<details class="config"><summary>All {len(paths):,} settings</summary>{rows(paths, True)}</details>')


def _leaf(value: object) -> str:
    return '<span class="count">absent</span>' if value is MISSING else escape(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
