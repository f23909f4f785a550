// A plot of any two columns of a table: points, lines, or the distribution of one; groups have colours and marks. Grouped
// by a third column, a group is one mark: the mean of y and its range, with a table below.
(function () {
  "use strict";
  const { tables, drawers, element } = window.orrery;
  const kColours = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
  const kSymbols = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"];
  const kDashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const kSaid = /_(s|j|w|hz|bytes|per_s|tokens)$/;  // names that say their unit
  const kGroups = 12;  // of a column of numbers; more are no groups
  const kSize = 13;  // as figures.py has it
  const kFont = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/%\{/g, "% {");

  class Explorer {
    constructor(home) {
      this.home = home;
      this.key = home.dataset.explorer;
      this.table = tables[this.key];
      this.rows = this.table.drawn || Array.from({ length: this.table.rows }, (_, i) => i);
      this.scaled = new Map();
      this.build();
    }

    index(name) {
      return this.table.columns.findIndex((column) => column.name === name);
    }

    // A column as it is drawn: values in the unit that suits the largest of them, and that unit.
    drawn(name) {
      if (!this.scaled.has(name)) {
        const i = this.index(name), values = this.table.values[i], { steps } = this.table.columns[i];
        const size = this.rows.reduce((most, row) => Math.max(most, Math.abs(values[row] ?? 0)), 0);
        const [factor, unit] = steps ? window.orrery.step(size, steps) : [1, ""];
        this.scaled.set(name, { unit,
          values: factor === 1 ? values : values.map((v) => (v === null ? v : Number((v * factor).toPrecision(9)))) });
      }
      return this.scaled.get(name);
    }

    label(name) {
      const { unit } = this.drawn(name), said = unit === this.table.columns[this.index(name)].unit && kSaid.test(name);
      return unit && !said ? `${name} (${unit})` : name;
    }

    select(name, options, chosen) {
      const select = element("select", {}, ...options.map(([value, text]) => element("option",
        { value, ...(value === chosen ? { selected: "" } : {}) }, text)));
      select.addEventListener("change", () => this.draw());
      this[name] = select;
      return select;
    }

    check(name, text) {
      this[name] = element("input", { type: "checkbox" });
      this[name].addEventListener("change", () => this.draw());
      return element("label", {}, this[name], " " + text);
    }

    build() {
      const { x, y, by, kind } = this.home.dataset;
      const numeric = this.table.columns.filter((column) => !column.levels).map((column) => [column.name, column.name]);
      const groups = this.table.columns.filter((column, i) => column.levels ? column.levels.length <= 60
        : new Set(this.table.values[i]).size <= kGroups).map((column) => [column.name, column.name]);
      const named = (text, select) => element("label", {}, text + " ", select);
      const kinds = [["points", "points"], ["lines", "lines"], ["distribution", "distribution of x"]];
      this.plot = element("div", { style: "height:460px", "data-plot": this.key });
      this.told = element("div", { class: "grouped" });
      this.home.append(
        element("div", { class: "figure-head" }, element("div", { class: "tools" },
          named("x", this.select("x", numeric, x)), this.check("logX", "log"),
          named("y", this.select("y", numeric, y)), this.check("logY", "log"),
          named("colour by", this.select("by", [["", "nothing"], ...groups], by)),
          this.table.fixed ? "" : named("group by", this.select("group", [["", "nothing"], ...groups], "")),
          this.table.fixed ? "" : named("as", this.select("kind", kinds, kind)))),
        element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "a plot" }, this.plot), this.told);
    }

    // Rows by their value in a column, each with its name, in the order of the values; all of them where it is "".
    groups(name = this.by.value, rows = this.rows) {
      const by = name === "" ? -1 : this.index(name);
      if (by < 0) return [["", rows]];
      const found = new Map(), column = this.table.columns[by], values = this.table.values[by];
      for (const row of rows) {
        if (!found.has(values[row])) found.set(values[row], []);
        found.get(values[row]).push(row);
      }
      const order = column.order || [], levels = column.levels;
      const before = (a, b) => (levels ? order.indexOf(levels[a]) - order.indexOf(levels[b]) ||
        levels[a].localeCompare(levels[b], "en", { numeric: true }) : (a === null) - (b === null) || a - b);
      return [...found].sort(([a], [b]) => before(a, b)).map(([, rows]) =>
        [levels ? levels[values[rows[0]]] : window.orrery.quantity(values[rows[0]], column.steps), rows]);
    }

    // Of each group that has a y: how many rows, their mean, least and most.
    means(rows) {
      const y = this.drawn(this.y.value).values;
      return this.groups(this.group.value, rows).map(([name, members]) => {
        const known = members.map((row) => y[row]).filter((v) => v !== null);
        return { name: name === "" ? "none" : name, count: known.length, mean: known.reduce((sum, v) => sum + v, 0) / known.length,
          least: Math.min(...known), most: Math.max(...known) };
      }).filter((one) => one.count > 0);
    }

    grouped() {
      const { unit } = this.drawn(this.y.value), lines = [];
      const round = (v) => Number(v.toPrecision(6)), coloured = this.by.value !== "" && this.by.value !== this.group.value;
      const plus = coloured ? this.groups() : [["", this.rows]];
      const data = plus.map(([name, rows], i) => {
        const colour = coloured ? name || "none" : "";
        const means = this.means(rows);
        for (const one of means) lines.push([...(coloured ? [colour] : []), one]);
        return { type: "scatter", mode: "markers", name: plain(colour === "" ? "mean" : colour), showlegend: colour !== "",
          x: means.map((one) => plain(one.name)), y: means.map((one) => round(one.mean)),
          text: means.map((one) => `${one.count} ${one.count === 1 ? "row" : "rows"}, ${one.least.toPrecision(4)} to ${one.most.toPrecision(4)} ${unit}`),
          error_y: { type: "data", symmetric: false, array: means.map((one) => round(one.most - one.mean)),
            arrayminus: means.map((one) => round(one.mean - one.least)), thickness: 1.4, width: 5 },
          marker: { color: kColours[i % kColours.length], symbol: kSymbols[i % kSymbols.length], size: 9 },
          hovertemplate: `%{x}<br>${plain(this.y.value)} %{y:,.5~g} ${unit}, %{text}<extra>${plain(colour)}</extra>` };
      });
      const cell = (text) => element("td", {}, text), shown = (v) => v.toLocaleString("en", { maximumSignificantDigits: 4 });
      const heads = [...(coloured ? [this.by.value] : []), this.group.value, "rows", "mean", "lowest", "highest"];
      const order = lines.map((line) => {
        const one = line[line.length - 1];
        return element("tr", {}, element("th", { scope: "row" }, coloured ? line[0] : one.name),
          ...(coloured ? [cell(one.name)] : []), cell(String(one.count)), ...[one.mean, one.least, one.most].map((v) => cell(shown(v))));
      });
      this.told.replaceChildren(element("p", { class: "caption" }, `${this.label(this.y.value)} of each group; bars reach from the lowest to the highest value.`),
        element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "a table" }, element("table", {},
          element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...order))));
      return data;
    }

    traces() {
      const { values: x, unit: of_x } = this.drawn(this.x.value), { values: y, unit: of_y } = this.drawn(this.y.value);
      const kind = this.kind ? this.kind.value : "points";
      const styles = (this.table.styles || {})[this.by.value] || {};
      return this.groups().map(([name, rows], i) => {
        const style = styles[name] || {}, colour = style.color || kColours[i % kColours.length];
        const common = { type: "scatter", name: plain(name === "" ? "rows" : name), showlegend: name !== "" };
        if (kind === "distribution") {
          const values = rows.map((row) => x[row]).filter((v) => v !== null).sort((a, b) => a - b);
          return { ...common, mode: "lines", x: values, y: values.map((_, k) => (k + 1) / values.length),
            line: { shape: "hv", color: colour, dash: kDashes[i % kDashes.length], width: 2 } };
        }
        let shown = rows.filter((row) => x[row] !== null && y[row] !== null);
        if (kind === "lines") shown = shown.slice().sort((a, b) => x[a] - x[b] || a - b);
        return { ...common, mode: kind === "lines" ? "lines+markers" : "markers", x: shown.map((row) => x[row]),
          y: shown.map((row) => y[row]), customdata: shown,
          text: shown.map((row) => plain(window.orrery.cell(this.table, 0, row))),
          line: { color: colour, dash: kDashes[i % kDashes.length], width: 1.5 },
          marker: { color: colour, symbol: style.symbol || kSymbols[i % kSymbols.length], opacity: style.opacity || 0.8,
            size: style.size || (shown.length > 500 ? 4.5 : 7), line: { width: style.line || 0, color: "#1f2933" } },
          hovertemplate: `${plain(this.table.columns[0].name)} %{text}<br>${plain(this.x.value)} %{x:,.5~g} ${of_x}<br>` +
            `${plain(this.y.value)} %{y:,.5~g} ${of_y}<extra>${plain(name)}</extra>` };
      });
    }

    // The best for both axes together, joined by the attainment border.
    border() {
      const goals = this.table.objectives || {}, ways = [goals[this.x.value], goals[this.y.value]];
      if (this.x.value === this.y.value || !ways[0] || !ways[1]) return [];
      const sign = ways.map((way) => (way === "maximise" ? -1 : 1));
      const x = this.drawn(this.x.value).values, y = this.drawn(this.y.value).values;
      const standing = this.index("standing"), levels = this.table.columns[standing].levels;
      const fit = [...Array(this.table.rows).keys()].filter((row) => x[row] !== null && y[row] !== null &&
        ["front", "feasible"].includes(levels[this.table.values[standing][row]]));
      fit.sort((a, b) => sign[0] * (x[a] - x[b]) || sign[1] * (y[a] - y[b]) || a - b);
      const best = [];
      for (const row of fit) if (!best.length || sign[1] * (y[row] - y[best[best.length - 1]]) < 0) best.push(row);
      return [{ type: "scatter", mode: "lines", name: "attainment border", x: best.map((row) => x[row]),
        y: best.map((row) => y[row]), hoverinfo: "skip", line: { shape: "hv", color: "#0072B2", width: 1.3, dash: "dot" } }];
    }

    chosen() {
      const row = this.key === "points" ? window.orrery.picked : undefined;
      const of = (select) => (row === undefined ? [] : [this.drawn(select.value).values[row]]);
      return { type: "scatter", mode: "markers", name: "chosen", x: of(this.x), y: of(this.y), showlegend: false,
        hoverinfo: "skip", marker: { symbol: "circle-open", size: 17, color: "#D55E00", line: { width: 3 } } };
    }

    draw(width) {
      const kind = this.kind ? this.kind.value : "points", groups = Boolean(this.group && this.group.value);
      const spread = kind === "distribution" && !groups;
      const axis = (name, log) => ({ title: { text: plain(name), standoff: 8, font: { size: kSize } }, gridcolor: "#e4e8ec",
        linecolor: "#5f6b7a", showline: true, zeroline: false, ticks: "outside", ticklen: 4, automargin: true,
        type: log.checked ? "log" : "linear", exponentformat: "none", tickformat: ",~g" });
      const title = (select) => {
        const way = (this.table.objectives || {})[select.value];
        return this.label(select.value) + (way ? `, ${way}d` : "");
      };
      this.y.disabled = spread;
      this.x.disabled = this.logX.disabled = groups;
      if (this.kind) this.kind.disabled = groups;
      if (!groups) this.told.replaceChildren();
      const layout = { height: 460, ...(width ? { width } : {}), font: { family: kFont, size: kSize, color: "#1f2933" },
        hovermode: "closest", paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", margin: { l: 70, r: 24, t: 16, b: 56 },
        legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", itemsizing: "constant" },
        xaxis: axis(title(this.x), this.logX),
        yaxis: axis(spread ? "fraction of rows at or below" : title(this.y), spread ? { checked: false } : this.logY) };
      if (spread) Object.assign(layout.yaxis, { range: [0, 1.02] });
      if (groups) layout.xaxis = { ...axis(this.group.value, { checked: false }), type: "category", tickformat: "" };
      const data = groups ? this.grouped() : [...this.traces(), ...(spread ? [] : this.border()), this.chosen()];
      this.plot.dataset.drawn = "started";
      this.plot.dataset.dark = "";
      Plotly.react(this.plot, data, layout, window.orrery.options(this.key)).then(() => {
        window.orrery.turn(this.plot);
        this.plot.dataset.drawn = "done";
        if (this.listens || !window.orrery.pick || !this.table.fixed) return;
        this.listens = true;
        this.plot.on("plotly_click", (event) => {
          const row = event.points[0].customdata;
          if (row !== undefined) window.orrery.pick(this.chief(row));
        });
      });
    }

    // Of points that lie on each other, the one of the front.
    chief(row) {
      const standing = this.index("standing"), { xaxis, yaxis } = this.plot._fullLayout;
      const names = this.table.columns[standing].levels, chief = (r) => ["front", "best"].includes(names[this.table.values[standing][r]]);
      const x = this.drawn(this.x.value).values, y = this.drawn(this.y.value).values;
      const far = (r) => Math.hypot(xaxis.d2p(x[r]) - xaxis.d2p(x[row]), yaxis.d2p(y[r]) - yaxis.d2p(y[row]));
      if (standing < 0 || chief(row)) return row;
      const near = this.rows.filter((r) => chief(r) && far(r) < 4);
      return near.reduce((best, r) => (best === null || far(r) < far(best) ? r : best), null) ?? row;
    }

    mark() {
      if (this.plot.data) Plotly.restyle(this.plot, (({ x, y }) => ({ x: [x], y: [y] }))(this.chosen()), [this.plot.data.length - 1]);
    }
  }

  const all = new Map();
  window.orrery.explorers = all;
  drawers.explorer = function (home, width) {
    if (!all.has(home)) all.set(home, new Explorer(home));
    const one = all.get(home);
    if (home.dataset.width !== String(width)) one.draw(width);
    home.dataset.width = String(width);
  };
})();
