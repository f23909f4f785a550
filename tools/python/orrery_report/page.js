// Tabs, axis buttons and drawing on demand. A plot is drawn when its tab first shows, because a hidden one has no size.
(function () {
  "use strict";
  const kPrintWidth = 680;  // fits A4 and Letter within the margins of page.css
  const root = document.documentElement;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("figures");
  // What the other scripts share: data, and who draws which elements: attribute to function (element, width or null).
  const orrery = window.orrery = { tables: read("tables"), data: read("data"), drawers: {} };
  const tabs = Array.from(document.querySelectorAll("[role=tab]"));
  const panels = Array.from(document.querySelectorAll(".panel"));
  root.classList.add("js");

  orrery.options = function (key) {
    return {
      responsive: true, displaylogo: false, toImageButtonOptions: { filename: "orrery-" + key, scale: 2 },
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "hoverClosestCartesian", "hoverCompareCartesian",
        "toggleSpikelines"],
    };
  };

  // Plots are made for white paper. On a dark screen their neutral colours give way; series keep theirs.
  const kNeutral = [["#1f2933", "#dde3e9"], ["#5f6b7a", "#9aa7b4"], ["#e4e8ec", "#2c343c"], ["#ffffff", "#14181c"]];
  const asked = window.matchMedia("(prefers-color-scheme: dark)");
  orrery.dark = () => asked.matches && !root.classList.contains("printing");
  orrery.shade = (colour) => (orrery.dark() ? kNeutral.find((both) => both[0] === colour)[1] : colour);
  // Calls `found(path, colour)` for every neutral colour in a layout or trace that is to be another.
  function neutral(value, path, dark, found) {
    if (typeof value === "string") {
      const pair = kNeutral.find((both) => both[dark ? 0 : 1] === value.toLowerCase());
      if (pair) found(path, pair[dark ? 1 : 0]);
    } else if (Array.isArray(value)) {
      if (typeof value[0] === "object") value.forEach((item, i) => neutral(item, path + "[" + i + "]", dark, found));
    } else if (value && typeof value === "object" && !ArrayBuffer.isView(value)) {
      for (const [key, inner] of Object.entries(value)) neutral(inner, path ? path + "." + key : key, dark, found);
    }
  }
  // Turns the colours of a plot that is drawn; what its reader has chosen stays.
  orrery.turn = function (plot) {
    const dark = orrery.dark();
    if (Boolean(plot.dataset.dark) === dark) return;
    plot.dataset.dark = dark ? "1" : "";
    const layout = {};
    neutral(plot.layout, "", dark, (path, colour) => { layout[path] = colour; });
    plot.data.forEach((trace, i) => {
      const update = {};
      neutral(trace, "", dark, (path, colour) => { update[path] = colour; });
      if (Object.keys(update).length > 0) Plotly.restyle(plot, update, [i]);
    });
    Plotly.relayout(plot, layout);
  };

  // A small plot takes traces of a figure, each a copy: a plot changes its own.
  function data(one) {
    if (!one.of) return one.data;
    return one.traces.map((i) => Object.assign(structuredClone(figures[one.of].data[i]), one.set, { xaxis: "x", yaxis: "y" }));
  }

  // Draws a panel's plots as wide as the panel, or on a page of that width (a printer does not wait for a resize).
  function draw(panel, page) {
    for (const plot of panel.querySelectorAll("[data-figure]")) {
      const key = plot.dataset.figure, width = page && figures[key].of ? Math.floor(page / 3) - 10 : page;
      if (plot.dataset.drawn) {
        orrery.turn(plot);
        Plotly.relayout(plot, width ? { width } : { width: null, autosize: true });
      } else {
        plot.dataset.drawn = "started";
        const done = () => {
          orrery.turn(plot);
          plot.dataset.drawn = "done";
        };
        const one = figures[key];
        const layout = width ? Object.assign({}, one.layout, { width }) : one.layout;
        const options = one.of ? { responsive: true, displayModeBar: false } : orrery.options(key);
        Plotly.newPlot(plot, data(one), layout, options).then(done);
      }
    }
    for (const [name, drawer] of Object.entries(orrery.drawers))
      for (const element of panel.querySelectorAll("[data-" + name + "]")) drawer(element, page || null);
  }

  function show(key, focus) {
    for (const tab of tabs) {
      const on = tab.dataset.tab === key;
      tab.setAttribute("aria-selected", on ? "true" : "false");
      tab.tabIndex = on ? 0 : -1;
      if (on && focus) tab.focus();
    }
    for (const panel of panels) panel.classList.toggle("shown", panel.id === key);
    draw(document.getElementById(key));
  }

  function go(key, focus) {
    // replaceState neither scrolls to the panel nor fills the history.
    history.replaceState(null, "", "#" + key);
    show(key, focus);
  }

  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => go(tab.dataset.tab, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      go(tabs[(to + tabs.length) % tabs.length].dataset.tab, true);
    });
  });

  // What a button sets: the scale of an axis, or the tail (1 - quantile) instead of the CDF.
  const apply = {
    x: (plot, value) => {
      // Labels on a logarithmic axis stand at the logarithm of their value.
      const old = plot.layout.xaxis.type, update = {
        "xaxis.type": value, "xaxis.autorange": true, "xaxis.tickmode": value === "log" ? "array" : "auto",
      };
      (plot.layout.annotations || []).forEach((label, i) => {
        if (label.xref === "x" && old !== value)
          update["annotations[" + i + "].x"] = value === "log" ? Math.log10(label.x) : Math.pow(10, label.x);
      });
      return Plotly.relayout(plot, update);
    },
    y: (plot, value) => {
      const update = {}, mode = value === "log" ? "array" : "auto";
      for (const axis of ["yaxis", "yaxis2"])
        Object.assign(update, { [axis + ".type"]: value, [axis + ".autorange"]: true, [axis + ".tickmode"]: mode });
      return Plotly.relayout(plot, update);
    },
    tail: (plot, value) => {
      const tail = value === "1";
      if (!plot.cdf) plot.cdf = plot.data.map((curve) => curve.y);
      const y = plot.cdf.map((curve) => (tail ? curve.map((q) => (q < 1 ? 1 - q : null)) : curve));
      const head = tail ? "1 − quantile" : "quantile";
      const axis = tail
        ? { type: "log", dtick: 1, autorange: true, "title.text": "fraction of samples above" }
        : { type: "linear", dtick: 0.2, range: [0, 1.005], "title.text": "fraction of samples at or below" };
      return Plotly.update(plot, {
        y, hovertemplate: plot.data.map((c) => c.hovertemplate.replace(/<br>.*?%/, "<br>" + head + " %")),
      }, Object.fromEntries(Object.entries(axis).map(([name, value]) => ["yaxis." + name, value])));
    },
  };
  for (const button of document.querySelectorAll(".switch button")) {
    button.addEventListener("click", () => {
      for (const other of button.parentElement.querySelectorAll("button"))
        other.setAttribute("aria-pressed", other === button ? "true" : "false");
      apply[button.dataset.set](document.getElementById("plot-" + button.dataset.target), button.dataset.value);
    });
  }

  // Shows only the rows of a table that differ.
  for (const box of document.querySelectorAll("[data-only]"))
    box.addEventListener("change", () => document.getElementById(box.dataset.only).classList.toggle("only", box.checked));

  window.addEventListener("hashchange", () => show(wanted(), false));
  window.addEventListener("beforeprint", () => {
    root.classList.add("printing");
    panels.forEach((panel) => draw(panel, kPrintWidth));
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("printing");
    show(wanted(), false);
  });

  asked.addEventListener("change", () => show(wanted(), false));

  function wanted() {
    const key = location.hash.slice(1);
    return tabs.some((tab) => tab.dataset.tab === key) ? key : tabs[0].dataset.tab;
  }
  orrery.go = (key) => go(key, false);
  // When all scripts have said what they draw.
  document.addEventListener("orrery-started", () => show(wanted(), false));
})();
