// A point of a study, when it is chosen anywhere: its config, its measures, the command that repeats it.
(function () {
  "use strict";
  const { tables, data, element } = window.orrery;
  if (!data.study) return;
  const study = data.study, table = tables.points;
  const value = (name, row) => window.orrery.cell(table, table.columns.findIndex((c) => c.name === name), row);
  let before = null;  // what had the focus

  const drawer = element("aside", { id: "point", class: "drawer", "aria-labelledby": "point-title" });
  drawer.hidden = true;
  document.querySelector("main").append(drawer);

  function rows(names, row) {
    return element("table", { class: "pairs plain" }, element("tbody", {}, ...names.map(({ name, label }) =>
      element("tr", {}, element("th", { scope: "row" }, label), element("td", {}, value(name, row))))));
  }

  function block(title, ...content) {
    return [element("h4", {}, title), ...content];
  }

  // "a.b.c=value" laid over a config, as `--set` does it.
  function assign(config, setting) {
    const at = setting.indexOf("="), path = setting.slice(0, at).split(".");
    let parsed = setting.slice(at + 1);
    try { parsed = JSON.parse(parsed); } catch (error) { /* a text */ }
    let node = config;
    for (const step of path.slice(0, -1)) {
      if (node[step] === null || typeof node[step] !== "object") node[step] = {};
      node = node[step];
    }
    node[path[path.length - 1]] = parsed;
  }

  function pretty(config, paths) {
    const pre = element("pre", { class: "json", tabindex: "0" });
    const walk = (node, path, pad) => {
      const set = paths.has(path);
      if (node !== null && typeof node === "object" && Object.keys(node).length) {
        const list = Array.isArray(node), inner = pad + "  ", keys = Object.keys(node);
        pre.append((list ? "[" : "{") + "\n");
        keys.forEach((key, i) => {
          pre.append(inner + (list ? "" : JSON.stringify(key) + ": "));
          walk(node[key], path ? path + "." + key : key, inner);
          pre.append((i + 1 < keys.length ? "," : "") + "\n");
        });
        pre.append(pad + (list ? "]" : "}"));
      } else {
        pre.append(set ? element("mark", {}, JSON.stringify(node)) : JSON.stringify(node));
      }
    };
    walk(config, "", "");
    return pre;
  }

  function copier(text) {
    const button = element("button", { type: "button", class: "copy" }, "Copy");
    const done = (told) => { button.textContent = told; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
    button.addEventListener("click", () => {
      const old = () => {  // where the page may not use the clipboard
        const field = element("textarea", { class: "off" });
        field.value = text;
        document.body.append(field);
        field.select();
        done(document.execCommand("copy") ? "Copied" : "Not copied");
        field.remove();
        button.focus();
      };
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done("Copied"), old);
      else old();
    });
    return button;
  }

  function repeat(row) {
    const command = `${study.repeat} --point ${value("point", row).replace(/,/g, "")}`;
    const parts = block("Run it again",
      element("div", { class: "command" }, element("code", {}, command), copier(command)));
    if (study.repeat_note) parts.push(element("p", { class: "caption" }, study.repeat_note));
    return parts;
  }

  function config(row) {
    const places = study.settings.rows[row];
    if (places === undefined) {
      return [element("p", { class: "caption" }, "The command with --dry-run prints the point's full config.")];
    }
    const settings = places.map((place) => study.settings.texts[place]), paths = new Set();
    const made = JSON.parse(JSON.stringify(study.base));
    for (const setting of settings) {
      assign(made, setting);
      paths.add(setting.slice(0, setting.indexOf("=")));
    }
    const fold = element("details", { class: "config" }, element("summary", {}, "Full config, as given to the run"),
      element("p", { class: "caption" }, study.base_note), pretty(made, paths));
    return [...block("What the point sets"), element("pre", { class: "json settings", tabindex: "0" }, settings.join("\n")), fold];
  }

  window.orrery.pick = function (row) {
    before = document.activeElement;
    window.orrery.picked = row;
    const title = element("h3", { id: "point-title", tabindex: "-1" }, `Point ${value("point", row)}`);
    const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
    close.addEventListener("click", shut);
    const standing = value("standing", row), reason = study.reasons[row];
    drawer.replaceChildren(element("div", { class: "drawer-head" }, title, element("span",
      { class: "status " + ({ front: "good", best: "good", feasible: "good" }[standing] || "bad") }, standing), close),
      ...(reason ? [element("p", { class: "note" }, reason)] : []),
      ...block("Parameters", rows(study.parameters, row)), ...block("Objectives and measures", rows(study.figures, row)),
      ...repeat(row), ...config(row));
    drawer.hidden = false;
    document.documentElement.classList.add("with-drawer");
    redraw();
    title.focus({ preventScroll: true });
  };

  function shut() {
    drawer.hidden = true;
    delete window.orrery.picked;
    document.documentElement.classList.remove("with-drawer");
    redraw();
    if (before && before.isConnected) before.focus({ preventScroll: true });
  }

  function redraw() {
    for (const one of window.orrery.explorers.values()) one.mark();
    for (const [home, one] of window.orrery.parallels) if (home.clientWidth) one.draw();
    document.querySelectorAll("tr.pick").forEach((line) => line.classList.toggle("picked",
      line.dataset.row === String(window.orrery.picked)));
    window.dispatchEvent(new Event("resize"));
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !drawer.hidden && !event.defaultPrevented) shut();
  });
  document.querySelectorAll("[data-point]").forEach((button) =>
    button.addEventListener("click", () => window.orrery.pick(Number(button.dataset.point))));
})();
