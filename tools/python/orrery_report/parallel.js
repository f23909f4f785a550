// Parallel coordinates on a canvas: an axis a parameter and an objective, a line a point. Axes can be brushed.
(function () {
  "use strict";
  const { tables, data, drawers, element } = window.orrery;
  const kTop = 46, kFoot = 40, kHeight = 440, kSide = 60, kLeast = 96;  // pixels; kLeast: between two axes
  const kFont = "12px system-ui, sans-serif";
  const kListed = 12;
  const kAbsent = 1.07;  // place of a value that is not active, below the axis

  const { shade, dark } = window.orrery;
  const kInk = "#1f2933", kMuted = "#5f6b7a";  // as they are on paper
  const behind = () => (dark() ? "rgba(20,24,28,0.8)" : "rgba(255,255,255,0.8)");
  const front = () => (dark() ? "rgba(79,169,220,0.85)" : "rgba(0,114,178,0.75)");

  class Parallel {
    constructor(home) {
      this.home = home;
      this.table = tables.points;
      this.axes = data.study.axes.map((axis) => this.axis(axis));
      this.rows = this.table.drawn.filter((row) => this.standing(row) !== "over a limit").slice(0);
      this.front = new Set(this.rows.filter((row) => this.standing(row) === data.study.best));
      this.brushes = this.axes.map(() => null);  // [low, high] of places, 0 at the foot
      this.build();
    }

    standing(row) {
      const i = this.table.columns.findIndex((column) => column.name === "standing");
      return this.table.columns[i].levels[this.table.values[i][row]];
    }

    // Where each value stands between 0 (foot) and 1 (top), and the marks beside the axis.
    axis({ column, log, name }) {
      const i = this.table.columns.findIndex((c) => c.name === column), values = this.table.values[i];
      const { levels, steps } = this.table.columns[i];
      if (levels) {
        const real = levels.map((level, k) => [level, k]).filter(([level]) => level !== "");
        const place = {};
        real.forEach(([, k], p) => { place[k] = real.length > 1 ? p / (real.length - 1) : 0.5; });
        return { name, of: (row) => place[values[row]], marks: real.map(([level, k]) => [place[k], level.replace("catalog:", "")]) };
      }
      const known = values.filter((v) => v !== null);
      let low = Infinity, high = -Infinity;
      for (const v of known) { low = Math.min(low, v); high = Math.max(high, v); }
      const scale = log && low > 0 ? Math.log : (v) => v, span = scale(high) - scale(low);
      const of = (v) => (span > 0 ? (scale(v) - scale(low)) / span : 0.5);
      const distinct = [...new Set(known)].sort((a, b) => a - b);
      const shown = distinct.length <= 6 ? distinct
        : [0, 0.25, 0.5, 0.75, 1].map((s) => (log && low > 0 ? low * Math.pow(high / low, s) : low + s * (high - low)));
      return { name, of: (row) => (values[row] === null ? undefined : of(values[row])),
        marks: shown.map((v) => [of(v), window.orrery.quantity(v, steps, 4)]) };
    }

    build() {
      this.canvas = element("canvas", { role: "img", "aria-label": "Parallel coordinates" });
      this.handles = this.axes.map((axis, i) => {
        const handle = element("div", { class: "axis", tabindex: "0", role: "group",
          "aria-label": `Axis ${axis.name}: drag to select a range; keys: Enter selects the upper half, arrows move it, ` +
            "Shift and arrows resize it, Escape clears it" });
        handle.addEventListener("pointerdown", (event) => this.grab(event, i, handle));
        handle.addEventListener("keydown", (event) => this.key(event, i));
        return handle;
      });
      this.stage = element("div", { class: "stage" }, this.canvas, ...this.handles);
      this.told = element("span", { role: "status", class: "count" });
      this.reset = element("button", { type: "button" }, "Clear all axes");
      this.reset.addEventListener("click", () => { this.brushes.fill(null); this.draw(); });
      this.list = element("div", { class: "brushed" });
      this.home.append(element("div", { class: "grid-bar" }, this.told, this.reset),
        element("div", { class: "scroll" }, this.stage), this.list);
    }

    place(event, handle) {
      const box = handle.getBoundingClientRect();
      return Math.max(0, Math.min(1, 1 - (event.clientY - box.top - 8) / (box.height - 16)));
    }

    grab(event, i, handle) {
      event.preventDefault();
      handle.focus({ preventScroll: true });
      const from = this.place(event, handle);
      handle.setPointerCapture(event.pointerId);
      const move = (e) => {
        const to = this.place(e, handle);
        this.brushes[i] = Math.abs(to - from) < 0.015 ? null : [Math.min(from, to), Math.max(from, to)];
        this.draw();
      };
      const end = (e) => {
        move(e);
        handle.removeEventListener("pointermove", move);
        handle.removeEventListener("pointerup", end);
      };
      handle.addEventListener("pointermove", move);
      handle.addEventListener("pointerup", end);
    }

    key(event, i) {
      const step = { ArrowUp: 0.05, ArrowDown: -0.05 }[event.key], brush = this.brushes[i];
      if (event.key === "Enter") this.brushes[i] = [0.5, 1];
      else if (event.key === "Escape") this.brushes[i] = null;
      else if (step && brush) {
        const next = [event.shiftKey ? brush[0] : brush[0] + step, brush[1] + step];
        if (next[0] < -0.001 || next[1] > 1.001 || next[1] - next[0] < 0.02) return event.preventDefault();
        this.brushes[i] = next;
      } else return;
      event.preventDefault();
      this.draw();
    }

    inside(row) {
      return this.brushes.every((brush, i) => {
        const at = this.axes[i].of(row);
        return brush === null || (at !== undefined && at >= brush[0] - 1e-9 && at <= brush[1] + 1e-9);
      });
    }

    draw(width) {
      const most = width || this.home.clientWidth, brushed = this.brushes.some((brush) => brush);
      const pen = this.canvas.getContext("2d");
      pen.font = kFont;
      const texts = this.axes.map((axis) => Math.max(0, ...axis.marks.map(([, text]) => pen.measureText(text).width)));
      // Marks stand to the right of an axis: those of the last need room, those of the others may not reach the next axis.
      const right = Math.max(kSide, 16 + texts[texts.length - 1]), least = Math.max(kLeast, 20 + Math.max(...texts));
      const wide = Math.max(most, kSide + right + least * (this.axes.length - 1)), scale = window.devicePixelRatio || 1;
      this.canvas.width = wide * scale;
      this.canvas.height = kHeight * scale;
      this.canvas.style.width = this.stage.style.width = wide + "px";
      this.canvas.style.height = kHeight + "px";
      pen.scale(scale, scale);
      pen.clearRect(0, 0, wide, kHeight);
      const gap = this.axes.length > 1 ? (wide - kSide - right) / (this.axes.length - 1) : 0;
      const x = (i) => kSide + i * gap, y = (at) => kTop + (1 - at) * (kHeight - kTop - kFoot);
      const line = (row) => {
        pen.beginPath();
        this.axes.forEach((axis, i) => {
          const at = axis.of(row), height = at === undefined ? kTop + kAbsent * (kHeight - kTop - kFoot) : y(at);
          if (i) pen.lineTo(x(i), height); else pen.moveTo(x(i), height);
        });
        pen.stroke();
      };
      const chosen = this.rows.filter((row) => (brushed ? this.inside(row) : this.front.has(row))), held = new Set(chosen);
      pen.lineWidth = 0.7;
      pen.strokeStyle = "rgba(140,150,162,0.35)";
      for (const row of this.rows) if (!held.has(row)) line(row);
      pen.lineWidth = 1.4;
      for (const row of chosen) {
        pen.strokeStyle = this.front.has(row) ? front() : "rgba(213,94,0,0.55)";
        line(row);
      }
      if (window.orrery.picked !== undefined) {
        pen.lineWidth = 3;
        pen.strokeStyle = shade(kInk);
        line(window.orrery.picked);
      }
      this.scales(pen, x, y);
      this.handles.forEach((handle, i) => {
        Object.assign(handle.style, { left: x(i) - 14 + "px", top: kTop - 8 + "px", height: kHeight - kTop - kFoot + 16 + "px" });
      });
      this.tell(chosen, brushed);
    }

    scales(pen, x, y) {
      this.axes.forEach((axis, i) => {
        pen.fillStyle = shade(kInk);
        pen.fillRect(x(i) - 0.75, y(1), 1.5, y(0) - y(1));
        const brush = this.brushes[i];
        if (brush) {
          pen.fillStyle = "rgba(213,94,0,0.28)";
          pen.fillRect(x(i) - 8, y(brush[1]), 16, y(brush[0]) - y(brush[1]));
        }
        pen.font = kFont;
        let last = null;
        for (const [at, text] of axis.marks) {
          if (last !== null && Math.abs(y(at) - last) < 14) continue;  // no text over another
          last = y(at);
          const wide = pen.measureText(text).width;
          pen.fillStyle = behind();
          pen.fillRect(x(i) + 5, y(at) - 7, wide + 4, 14);
          pen.fillStyle = shade(kInk);
          pen.fillText(text, x(i) + 7, y(at) + 4);
        }
        pen.font = "600 12.5px system-ui, sans-serif";
        pen.textAlign = "center";
        const words = axis.name.split(", ");
        words.forEach((word, k) => pen.fillText(word, x(i), kTop - 14 - 14 * (words.length - 1 - k)));
        pen.textAlign = "left";
      });
      if (this.rows.some((row) => this.axes.some((axis) => axis.of(row) === undefined))) {
        pen.font = kFont;
        pen.fillStyle = shade(kMuted);
        pen.fillText("not active", 4, kTop + kAbsent * (kHeight - kTop - kFoot) + 14);
      }
    }

    tell(chosen, brushed) {
      const all = this.rows.length.toLocaleString("en-US");
      this.told.textContent = brushed ? `${chosen.length.toLocaleString("en-US")} of ${all} lines in the selected ranges`
        : `${all} lines; blue: ${data.study.best}`;
      this.reset.disabled = !brushed;
      const first = chosen.slice().sort((a, b) => this.front.has(b) - this.front.has(a) || a - b).slice(0, kListed);
      this.list.replaceChildren(...(first.length ? ["Points: "] : []), ...first.map((row) => {
        const button = element("button", { type: "button", class: "chip" }, window.orrery.cell(this.table, 0, row));
        button.addEventListener("click", () => window.orrery.pick(row));
        return button;
      }), chosen.length > kListed ? ` and ${(chosen.length - kListed).toLocaleString("en-US")} more` : "");
    }
  }

  const all = new Map();
  window.orrery.parallels = all;
  drawers.parallel = function (home, width) {
    if (!all.has(home)) all.set(home, new Parallel(home));
    all.get(home).draw(width);
    home.dataset.drawn = "done";
  };
  window.addEventListener("resize", () => all.forEach((one, home) => { if (home.clientWidth) one.draw(); }));
})();
