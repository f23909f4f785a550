// Tables of any length: a filter for each column, sorted by a click on its head, shown page by page.
(function () {
  "use strict";
  const kRows = 50;
  const { tables, drawers } = window.orrery;

  /// A cell as people read it.
  const cell = window.orrery.cell = function (table, column, row) {
    const value = table.values[column][row], levels = table.columns[column].levels;
    if (levels) return levels[value] === "" ? "–" : levels[value].replace(/^catalog:/, "");
    return window.orrery.quantity(value, table.columns[column].steps);
  };
  /// A number with the prefix and unit that suit it; `steps` as orrery_plot/units.py makes them, none of a name.
  window.orrery.quantity = function (value, steps, digits) {
    const number = window.orrery.number;
    if (value === null || value === undefined || !steps) return number(value, digits);
    const [factor, unit] = window.orrery.step(Math.abs(value), steps, digits);
    return number(value * factor, digits) + (unit ? "\u00a0" + unit : "");
  };
  /// [factor, unit with its prefix] for values as large as `size`.
  window.orrery.step = function (size, steps, digits) {
    const written = Number(size.toPrecision(digits || 5));
    return steps.find(([least, factor]) => (written ? written >= least : factor === 1)).slice(1);
  };
  window.orrery.number = function (value, digits) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en-US");
    if (size < 1e-4 || size >= 1e15) return value.toExponential((digits || 5) - 1);
    return value.toLocaleString("en-US", { maximumSignificantDigits: digits || 5 });
  };
  window.orrery.element = function (name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {}))
      if (value !== null && value !== undefined) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const element = window.orrery.element;

  // What a filter's text means: a test of a value, null for no filter, undefined if it means nothing. Numbers may have the
  // unit with which they are shown, or its prefix: 1.8 GHz, 1.8G.
  function meaning(text, { levels, steps }) {
    const word = text.trim().toLowerCase(), typed = text.trim();
    if (word === "") return null;
    if (levels) {
      const exact = word.startsWith("=") ? word.slice(1).trim() : null;
      const fits = levels.map((level) => exact !== null ? level.toLowerCase() === exact : level.toLowerCase().includes(word));
      return (value) => fits[value];
    }
    if (word === "none") return (value) => value === null;
    const range = /^(.+?)\.\.(.+)$/.exec(typed), bound = /^(>=|<=|!=|>|<|=)?(.+)$/.exec(typed);
    const number = (t) => {
      const [, digits, unit] = /^\s*([-+]?[\d.,]+(?:e[-+]?\d+)?)\s*(\D*?)\s*$/i.exec(t) || [null, "", ""];
      const step = unit === "" ? [0, 1] : (steps || []).find(([, , name]) => name === unit)
        || (steps || []).find(([, , name]) => name.startsWith(unit));
      return digits === "" || !step ? NaN : Number(digits.replace(/,/g, "")) / step[1];
    };
    if (range) {
      const low = number(range[1]), high = number(range[2]);
      return isNaN(low) || isNaN(high) ? undefined : (v) => v !== null && v >= low && v <= high;
    }
    const limit = number(bound[2]), near = Math.abs(limit) * 1e-4;  // a cell shows five digits
    if (isNaN(limit)) return undefined;
    const tests = { ">": (v) => v > limit, ">=": (v) => v >= limit, "<": (v) => v < limit, "<=": (v) => v <= limit,
      "!=": (v) => Math.abs(v - limit) > near, "=": (v) => Math.abs(v - limit) <= near };
    return (v) => v !== null && tests[bound[1] || "="](v);
  }

  class Grid {
    constructor(home) {
      this.home = home;
      this.key = home.dataset.grid;
      this.table = tables[this.key];
      this.pick = home.hasAttribute("data-pick");
      this.filters = this.table.columns.map(() => null);
      this.sorted = null;  // {column, down}
      this.first = 0;
      this.build();
      this.arrange();
    }

    build() {
      const title = this.home.dataset.title;
      this.count = element("span", { role: "status", class: "count" });
      this.back = element("button", { type: "button", "aria-label": "Rows before" }, "‹");
      this.on = element("button", { type: "button", "aria-label": "Rows after" }, "›");
      this.clear = element("button", { type: "button" }, "Clear filters");
      this.back.addEventListener("click", () => this.turn(-kRows));
      this.on.addEventListener("click", () => this.turn(kRows));
      this.clear.addEventListener("click", () => {
        this.inputs.forEach((input) => { input.value = ""; input.removeAttribute("aria-invalid"); });
        this.filters.fill(null);
        this.arrange();
      });
      this.heads = this.table.columns.map((column, i) => {
        const button = element("button", { type: "button" }, column.name);
        button.addEventListener("click", () => this.sort(i));
        return element("th", { scope: "col", class: column.levels ? "text" : null, "aria-sort": "none" }, button);
      });
      this.inputs = this.table.columns.map((column, i) => {
        const input = element("input", { type: "text", "aria-label": "Filter " + column.name, spellcheck: "false",
          placeholder: column.levels ? "contains" : "e.g. >5", size: 7 });
        input.addEventListener("input", () => this.filter(i, input));
        return input;
      });
      this.body = element("tbody");
      const head = element("thead", {}, element("tr", {}, ...this.heads),
        element("tr", { class: "filters" }, ...this.inputs.map((input) => element("td", {}, input))));
      this.home.append(
        element("div", { class: "grid-bar" }, element("b", {}, title), this.count, this.clear,
          element("span", { class: "pager" }, this.back, this.on)),
        element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title + ", a table" },
          element("table", {}, head, this.body)));
    }

    filter(column, input) {
      const test = meaning(input.value, this.table.columns[column]);
      if (test === undefined) {
        input.setAttribute("aria-invalid", "true");
        return;
      }
      input.removeAttribute("aria-invalid");
      this.filters[column] = test;
      this.arrange();
    }

    sort(column) {
      const down = this.sorted && this.sorted.column === column ? !this.sorted.down : false;
      this.sorted = { column, down };
      this.heads.forEach((head, i) => head.setAttribute("aria-sort",
        i !== column ? "none" : down ? "descending" : "ascending"));
      this.arrange();
    }

    arrange() {
      const tests = this.filters.map((test, i) => [test, this.table.values[i]]).filter((pair) => pair[0]);
      this.order = [];
      for (let row = 0; row < this.table.rows; row++)
        if (tests.every(([test, values]) => test(values[row]))) this.order.push(row);
      if (this.sorted) {
        const { column, down } = this.sorted, levels = this.table.columns[column].levels;
        const rank = levels ? levels.map((l, i) => [l, i]).sort((a, b) => (a[0] < b[0] ? -1 : 1)) : null;
        const place = rank ? rank.reduce((all, [, i], p) => { all[i] = p; return all; }, []) : null;
        const values = this.table.values[column], sign = down ? -1 : 1;
        const of = place ? (row) => place[values[row]] : (row) => values[row];
        this.order.sort((a, b) => {
          const x = of(a), y = of(b);
          if (x === null || y === null) return (x === null) - (y === null) || a - b;  // what is not there comes last
          return sign * (x - y) || a - b;
        });
      }
      this.first = 0;
      this.show();
    }

    turn(by) {
      this.first = Math.max(0, Math.min(this.first + by, kRows * Math.floor((this.order.length - 1) / kRows)));
      this.show();
    }

    show() {
      const last = Math.min(this.first + kRows, this.order.length), all = this.table.rows.toLocaleString("en-US");
      this.count.textContent = this.order.length === 0 ? `none of ${all} rows`
        : `${(this.first + 1).toLocaleString("en-US")}–${last.toLocaleString("en-US")} of ` +
          `${this.order.length.toLocaleString("en-US")} rows` + (this.order.length < this.table.rows ? `, ${all} in total` : "");
      this.back.disabled = this.first === 0;
      this.on.disabled = last >= this.order.length;
      this.clear.disabled = this.filters.every((test) => test === null);
      this.body.replaceChildren(...this.order.slice(this.first, last).map((row) => this.line(row)));
    }

    line(row) {
      const cells = this.table.columns.map((column, i) => {
        let content = cell(this.table, i, row);
        if (i === 0 && this.pick) {
          content = element("button", { type: "button", class: "link", "aria-label": "Point " + content }, content);
        }
        return element("td", { class: column.levels ? "text" : null }, content);
      });
      const line = element("tr", { class: this.pick ? "pick" : null, "data-row": row }, ...cells);
      if (this.pick) line.addEventListener("click", () => window.orrery.pick(row));
      return line;
    }
  }

  drawers.grid = function (home) {
    if (!home.dataset.drawn) new Grid(home);
    home.dataset.drawn = "done";
  };
})();
