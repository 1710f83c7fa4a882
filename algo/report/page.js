"use strict";
// The page of a report. Text from runs is inserted as text nodes and never as markup. The
// constant report is the interface for scripts that follow on the page: report.data holds the
// runs, and report.update() redraws after a change.
const report = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const colours = 11;
  const byId = function (id) { return document.getElementById(id); };
  const charts = [];
  const hidden = new Set(); // names of runs that are switched off
  let smoothing = 0;

  function element(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function draw(tag, attributes, parent) {
    const e = document.createElementNS(NS, tag);
    for (const name in attributes) e.setAttribute(name, attributes[name]);
    if (parent) parent.append(e);
    return e;
  }

  // format returns a value as text. The units are those of Chart.Unit.
  function format(v, unit) {
    if (v === null || v === undefined || Number.isNaN(v)) return "not finite";
    if (unit === "bytes") {
      const names = ["B", "kB", "MB", "GB", "TB"];
      let i = 0;
      while (Math.abs(v) >= 1000 && i < names.length - 1) { v /= 1000; i++; }
      return trim(v.toPrecision(3)) + " " + names[i];
    }
    if (unit === "s") return v >= 100 ? clock(v) : trim(v.toPrecision(3)) + " s";
    if (v === 0) return "0";
    const a = Math.abs(v);
    if (a >= 1e6 || a < 1e-3) return v.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    return trim(a >= 1000 ? v.toFixed(0) : v.toPrecision(4));
  }

  function trim(text) { return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text; }

  // clock formats seconds as 1:05 or 2:03:04.
  function clock(seconds) {
    const s = Math.round(seconds), two = function (n) { return String(n).padStart(2, "0"); };
    return s < 3600 ? Math.floor(s / 60) + ":" + two(s % 60) : Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
  }

  // ticks returns about n round numbers from lo to hi.
  function ticks(lo, hi, n, whole) {
    let step = Math.pow(10, Math.floor(Math.log10((hi - lo) / n)));
    for (const m of [1, 2, 5, 10]) {
      if ((hi - lo) / (step * m) <= n) { step *= m; break; }
    }
    if (whole) step = Math.max(1, Math.round(step));
    const out = [];
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++) out.push(k * step);
    return out;
  }

  // thin keeps the lowest and the highest point of each of n ranges.
  function thin(s, n) {
    if (s.x.length <= 2 * n) return s;
    const out = { x: [], y: [] };
    for (let i = 0; i < n; i++) {
      const from = Math.floor(i * s.x.length / n), to = Math.floor((i + 1) * s.x.length / n);
      let lo = from, hi = from;
      for (let j = from; j < to; j++) {
        if (s.y[j] === null || s.y[j] < s.y[lo]) lo = j;
        if (s.y[j] > s.y[hi] || s.y[hi] === null) hi = j;
      }
      for (const j of lo === hi ? [lo] : [Math.min(lo, hi), Math.max(lo, hi)]) { out.x.push(s.x[j]); out.y.push(s.y[j]); }
    }
    return out;
  }

  // smooth returns the exponential moving average of a series, without the bias of its start.
  function smooth(s) {
    let sum = 0, weight = 0;
    return { x: s.x, y: s.y.map(function (v) {
      if (v === null) return null;
      sum = smoothing * sum + (1 - smoothing) * v;
      weight = smoothing * weight + (1 - smoothing);
      return sum / weight;
    }) };
  }

  function several() { return data.runs.length > 1; }

  function shown() { return data.runs.filter(function (r) { return !hidden.has(r); }); }

  function colourOf(run, nr) { return (several() ? data.runs.indexOf(run) : nr) % colours; }

  // curvesOf returns the curves of a chart: the metrics of the visible runs, and the points of validations.
  function curvesOf(def) {
    const out = [];
    let lines = 0;
    def.metrics.forEach(function (m) {
      const present = data.runs.some(function (r) { return r.series[def.phase] && r.series[def.phase][m.metric]; });
      if (!present) return;
      const nr = lines++;
      shown().forEach(function (run) {
        const s = run.series[def.phase] && run.series[def.phase][m.metric];
        if (s && s.x.length > 0) out.push({ run: run, label: m.label, series: s, colour: colourOf(run, nr), dash: several() ? nr : 0 });
      });
    });
    // A metric that equals the first one in every step would hide it.
    const first = new Map();
    for (let i = 0; i < out.length; i++) {
      const c = out[i], same = first.get(c.run);
      if (!same) first.set(c.run, c.series);
      else if (same.y.length === c.series.y.length && same.y.every(function (v, k) { return v === c.series.y[k]; })) out.splice(i--, 1);
    }
    if (def.validation) {
      shown().forEach(function (run) {
        const points = [];
        (run.validations || []).forEach(function (v) {
          const r = v.results[v.results.length - 1];
          if (r && v.label !== "untrained") points.push({ x: v.step, y: r[def.validation], lo: def.validation === "success" ? r.low : undefined, hi: r.high, label: v.label });
        });
        if (points.length > 0) out.push({ run: run, label: "validations", points: points, colour: colourOf(run, lines), dash: 0 });
      });
    }
    return out;
  }

  // nearest returns the index of the value in the increasing list xs that is nearest to x.
  function nearest(xs, x) {
    let lo = 0, hi = xs.length - 1;
    while (hi - lo > 1) {
      const mid = (lo + hi) >> 1;
      if (xs[mid] < x) lo = mid; else hi = mid;
    }
    return Math.abs(xs[hi] - x) < Math.abs(xs[lo] - x) ? hi : lo;
  }

  function swatch(c, points) {
    const s = draw("svg", { class: "swatch", viewBox: "0 0 14 8", "aria-hidden": "true" });
    if (points) draw("circle", { class: "hollow s" + c.colour, cx: 7, cy: 4, r: 3 }, s);
    else draw("line", { class: "curve s" + c.colour + " dash" + c.dash, x1: 0, x2: 14, y1: 4, y2: 4 }, s);
    return s;
  }

  function nameOf(c) { return several() ? c.run.name + (c.label ? ", " + c.label : "") : c.label || "value"; }

  // frame adds an empty figure with a plot to a parent.
  function frame(title, help, parent) {
    const f = { figure: element("figure", "chart"), now: element("span", "now"), legend: element("div", "legend"), plot: element("div", "plot"),
      svg: draw("svg", { role: "img", tabindex: "0", preserveAspectRatio: "none" }), tip: element("div", "tip"), index: -1 };
    const caption = element("figcaption");
    caption.append(element("h3", "", title), f.now);
    if (help) {
      const d = element("details", "help"), s = element("summary", "", "?");
      s.setAttribute("aria-label", "explain " + title);
      d.append(s, element("p", "", help));
      caption.append(d);
    }
    f.tip.hidden = true;
    f.plot.append(f.svg, f.tip);
    f.figure.append(caption, f.legend, f.plot);
    parent.append(f.figure);
    f.plot.addEventListener("pointermove", function (event) { f.point(event.clientX - f.svg.getBoundingClientRect().left, false); });
    f.plot.addEventListener("pointerleave", function () { f.leave(); });
    f.svg.addEventListener("blur", function () { f.leave(); });
    f.svg.addEventListener("keydown", function (event) {
      const last = f.xs.length - 1;
      const to = { ArrowLeft: Math.max(0, f.index - 1), ArrowRight: Math.min(last, f.index + 1), Home: 0, End: last }[event.key];
      if (event.key === "Escape") f.leave();
      if (to === undefined || last < 0) return;
      event.preventDefault();
      f.show(to, true);
    });
    new ResizeObserver(function () { if (f.figure.offsetParent !== null) f.redraw(); }).observe(f.plot);
    return f;
  }

  const left = 54, right = 10, top = 8, bottom = 20;

  // axes draws the grid, and sets the functions f.px and f.py from values to pixels.
  function axes(f, x0, x1, y, unit, label) {
    const box = f.plot.getBoundingClientRect(), w = box.width, h = box.height;
    f.width = w; f.height = h;
    f.svg.setAttribute("viewBox", "0 0 " + w + " " + h);
    f.svg.setAttribute("aria-label", label);
    f.svg.replaceChildren();
    if (x1 <= x0) { x0 -= 0.5; x1 += 0.5; }
    const unscaled = function (v) { return v; };
    const scale = y.log ? function (v) { return Math.log10(Math.max(v, y.lo)); } : unscaled;
    const lo = scale(y.lo), hi = scale(y.hi);
    f.px = function (x) { return left + (x - x0) / (x1 - x0) * (w - left - right); };
    f.py = function (v) { return h - bottom - (scale(v) - lo) / (hi - lo) * (h - top - bottom); };
    f.x = function (px) { return x0 + (px - left) / (w - left - right) * (x1 - x0); };
    let at = [];
    if (y.log) {
      const decades = Math.max(1, Math.round((hi - lo) / 4));
      for (let k = Math.ceil(lo - 1e-9); k <= hi + 1e-9; k += decades) at.push(Math.pow(10, k));
    } else at = ticks(y.lo, y.hi, h < 150 ? 3 : 5, false);
    at.forEach(function (v) {
      draw("line", { class: "grid", x1: left, x2: w - right, y1: f.py(v), y2: f.py(v) }, f.svg);
      draw("text", { class: "axis", x: left - 6, y: f.py(v) + 4, "text-anchor": "end" }, f.svg).textContent = format(v, unit).replace(" ", "\u00a0");
    });
    ticks(x0, x1, w < 420 ? 5 : 8, true).forEach(function (v) {
      draw("text", { class: "axis", x: f.px(v), y: h - 4, "text-anchor": "middle" }, f.svg).textContent = String(v);
    });
  }

  // range returns the vertical axis of a chart for the values of its curves.
  function range(def, curves) {
    let lo = Infinity, hi = -Infinity, positive = Infinity;
    const see = function (v) {
      if (v === null || v === undefined || !Number.isFinite(v)) return;
      lo = Math.min(lo, v); hi = Math.max(hi, v);
      if (v > 0) positive = Math.min(positive, v);
    };
    curves.forEach(function (c) {
      if (c.series) c.series.y.forEach(see);
      if (c.points) c.points.forEach(function (p) { see(p.y); if (p.lo !== undefined) { see(p.lo); see(p.hi); } });
    });
    if (def.scale === "share") return { lo: 0, hi: 1 };
    if (hi < lo) return { lo: 0, hi: 1 };
    if (def.scale === "log" && lo >= 0 && hi > 10 * positive) return { log: true, lo: Math.pow(10, Math.floor(Math.log10(positive))), hi: Math.pow(10, Math.ceil(Math.log10(hi))) };
    if (def.scale !== "tight" || lo >= 0 && lo < 0.4 * hi) lo = Math.min(0, lo);
    if (hi === lo) { hi += Math.abs(hi) || 1; }
    const pad = 0.05 * (hi - lo);
    return { lo: lo === 0 ? 0 : lo - pad, hi: hi + pad };
  }

  function path(s, f) {
    let d = "", pen = "M";
    s.x.forEach(function (x, i) {
      if (s.y[i] === null) { pen = "M"; return; }
      d += pen + f.px(x).toFixed(1) + " " + f.py(s.y[i]).toFixed(1);
      pen = "L";
    });
    return d;
  }

  // chart adds a chart of curves over the steps of a phase.
  function chart(def, parent) {
    const f = frame(def.title, def.help, parent);
    f.figure.id = "chart-" + def.id;
    f.xs = [];
    f.redraw = function () {
      const curves = f.curves = curvesOf(def);
      f.figure.hidden = curves.length === 0 && !hidden.size;
      if (f.figure.hidden) return;
      const all = new Set();
      curves.forEach(function (c) { (c.series ? c.series.x : c.points.map(function (p) { return p.x; })).forEach(function (x) { all.add(x); }); });
      f.xs = Array.from(all).sort(function (a, b) { return a - b; });
      const texts = curves.map(function (c) {
        const v = c.series ? lastOf(c.series) : c.points[c.points.length - 1].y;
        return nameOf(c) + " " + format(v, def.unit) + " at step " + (c.series ? c.series.x[c.series.x.length - 1] : c.points[c.points.length - 1].x);
      });
      axes(f, f.xs.length ? f.xs[0] : 0, f.xs.length ? f.xs[f.xs.length - 1] : 1, range(def, curves), def.unit, def.title + ": " + texts.join("; "));
      curves.forEach(function (c) {
        if (c.points) return;
        const s = smoothing > 0 ? smooth(c.series) : c.series;
        if (s !== c.series) draw("path", { class: "curve raw s" + c.colour, d: path(thin(c.series, f.width), f) }, f.svg);
        draw("path", { class: "curve s" + c.colour + " dash" + c.dash, d: path(thin(s, f.width), f) }, f.svg);
        if (c.series.x.length <= 40) s.x.forEach(function (x, i) {
          if (s.y[i] !== null) draw("circle", { class: "f" + c.colour, cx: f.px(x), cy: f.py(s.y[i]), r: 2 }, f.svg);
        });
      });
      curves.forEach(function (c) {
        const points = c.points || [], crowded = points.length > f.width / 8;
        points.forEach(function (p) {
          if (crowded) {
            draw("circle", { class: "f" + c.colour, cx: f.px(p.x), cy: f.py(p.y), r: 2 }, f.svg);
            return;
          }
          if (p.lo !== undefined) draw("path", { class: "bar s" + c.colour, fill: "none",
            d: "M" + f.px(p.x) + " " + f.py(p.lo) + "V" + f.py(p.hi) + "m-3 0h6M" + (f.px(p.x) - 3) + " " + f.py(p.lo) + "h6" }, f.svg);
          draw("circle", { class: "hollow s" + c.colour, cx: f.px(p.x), cy: f.py(p.y), r: 3.5 }, f.svg);
        });
      });
      f.mark = draw("g", { hidden: "" }, f.svg);
      legend(f, curves, def);
    };
    // show displays the values at the x of an index of f.xs.
    f.show = function (index, say) {
      f.index = index;
      const x = f.xs[index], rows = [];
      f.curves.forEach(function (c) {
        const xs = c.series ? c.series.x : c.points.map(function (p) { return p.x; });
        const i = nearest(xs, x);
        if (xs[i] !== x) return;
        let text = format(c.series ? c.series.y[i] : c.points[i].y, def.unit);
        if (c.points && c.points[i].lo !== undefined) text += " (" + format(c.points[i].lo) + " to " + format(c.points[i].hi) + ")";
        rows.push({ curve: c, name: nameOf(c), text: text, y: c.series ? c.series.y[i] : c.points[i].y });
      });
      tooltip(f, "step " + x, rows, say);
      charts.forEach(function (other) { if (other.phase === def.phase) other.cross(x); });
    };
    f.point = function (px) {
      if (f.xs.length > 0) f.show(nearest(f.xs, f.x(px)), false);
    };
    f.leave = function () {
      f.tip.hidden = true;
      f.index = -1;
      charts.forEach(function (other) { other.cross(null); });
    };
    // cross draws a vertical line at x, or removes it.
    f.cross = function (x) {
      if (!f.mark) return;
      f.mark.replaceChildren();
      if (x === null || f.xs.length === 0 || x < f.xs[0] || x > f.xs[f.xs.length - 1]) return;
      f.mark.removeAttribute("hidden");
      draw("line", { class: "cursor", x1: f.px(x), x2: f.px(x), y1: top, y2: f.height - bottom }, f.mark);
      f.curves.forEach(function (c) {
        if (!c.series) return;
        const i = nearest(c.series.x, x);
        if (c.series.x[i] === x && c.series.y[i] !== null) draw("circle", { class: "f" + c.colour, cx: f.px(x), cy: f.py(c.series.y[i]), r: 3.5 }, f.mark);
      });
    };
    f.phase = def.phase;
    charts.push(f);
    f.redraw();
    return f;
  }

  function lastOf(s) {
    for (let i = s.y.length - 1; i >= 0; i--) if (s.y[i] !== null) return s.y[i];
    return null;
  }

  function legend(f, curves, def) {
    f.now.textContent = curves.length > 0 && curves[0].series && shown().length === 1 ? format(lastOf(curves[0].series), def.unit) : "";
    f.legend.replaceChildren();
    const labels = new Set(curves.map(function (c) { return c.label; }));
    if (labels.size < 2 && !several()) return;
    const seen = new Set();
    curves.forEach(function (c) {
      // With several runs the colours are explained by the buttons at the top, and the legend explains the kinds of lines.
      const key = several() ? c.label : nameOf(c);
      if (seen.has(key) || several() && labels.size < 2) return;
      seen.add(key);
      const item = element("span");
      item.append(swatch(several() ? { colour: 7, dash: c.dash } : c, c.points), key);
      f.legend.append(item);
    });
  }

  function tooltip(f, title, rows, say) {
    f.tip.replaceChildren(element("b", "", title));
    rows.forEach(function (r) {
      const row = element("div"), name = element("span");
      name.append(swatch(r.curve, r.curve.points), r.name);
      row.append(name, element("span", "", r.text));
      f.tip.append(row);
    });
    f.tip.hidden = false;
    const x = f.px(f.tipX === undefined ? f.xs[f.index] : f.tipX), wide = f.tip.offsetWidth;
    f.tip.style.left = Math.max(0, Math.min(x + 12 + wide > f.width ? x - wide - 12 : x + 12, f.width - wide)) + "px";
    if (say) byId("said").textContent = title + ": " + rows.map(function (r) { return r.name + " " + r.text; }).join(", ");
  }

  // timeChart adds a chart of the time of each step of a run, stacked by phase. With more steps than columns,
  // a column is the mean of several steps.
  function timeChart(run, parent) {
    const f = frame(several() ? run.name : "Seconds of a step", "", parent);
    f.figure.id = "time-" + data.runs.indexOf(run);
    f.xs = [];
    f.redraw = function () {
      const series = run.series.train || {};
      const phases = data.timePhases.map(function (p, i) { return { label: p[1], series: series["timing_s/" + p[0]], colour: i % colours, dash: 0 }; })
        .filter(function (p) { return p.series; });
      const steps = new Map();
      phases.forEach(function (p, k) {
        p.series.x.forEach(function (x, i) {
          if (!steps.has(x)) steps.set(x, new Array(phases.length).fill(0));
          steps.get(x)[k] = p.series.y[i] || 0;
        });
      });
      const xs = Array.from(steps.keys()).sort(function (a, b) { return a - b; });
      f.figure.hidden = xs.length === 0;
      if (f.figure.hidden) return;
      const most = Math.max(10, Math.floor((f.plot.getBoundingClientRect().width - left - right) / 3));
      const per = Math.ceil(xs.length / most);
      f.columns = [];
      for (let i = 0; i < xs.length; i += per) {
        const part = xs.slice(i, i + per), sums = new Array(phases.length).fill(0);
        part.forEach(function (x) { steps.get(x).forEach(function (v, k) { sums[k] += v / part.length; }); });
        f.columns.push({ from: part[0], to: part[part.length - 1], values: sums, total: sums.reduce(function (a, b) { return a + b; }, 0) });
      }
      f.xs = f.columns.map(function (c) { return (c.from + c.to) / 2; });
      const high = Math.max.apply(null, f.columns.map(function (c) { return c.total; })) || 1;
      const half = xs.length > 1 ? (xs[xs.length - 1] - xs[0]) / (f.columns.length - 1 || 1) / 2 : 0.5;
      const totals = phases.map(function (p) { return p.label + " " + format(p.series.y.reduce(function (a, b) { return a + (b || 0); }, 0), "s"); });
      axes(f, f.xs[0] - half, f.xs[f.xs.length - 1] + half, { lo: 0, hi: high * 1.05 }, "s", "time by phase of " + run.name + ", in total: " + totals.join(", "));
      const wide = Math.max(1, (f.px(f.xs[0] + 2 * half) - f.px(f.xs[0])) * (f.columns.length > 60 ? 1 : 0.8));
      f.columns.forEach(function (c, i) {
        let base = 0;
        c.values.forEach(function (v, k) {
          if (v > 0) draw("rect", { class: "f" + phases[k].colour, x: f.px(f.xs[i]) - wide / 2, width: wide, y: f.py(base + v), height: Math.max(0, f.py(base) - f.py(base + v)) }, f.svg);
          base += v;
        });
      });
      f.legend.replaceChildren();
      phases.forEach(function (p) {
        const item = element("span"), s = draw("svg", { class: "swatch", viewBox: "0 0 14 8", "aria-hidden": "true" });
        draw("rect", { class: "f" + p.colour, x: 2, y: 0, width: 10, height: 8 }, s);
        item.append(s, p.label);
        f.legend.append(item);
      });
      f.phases = phases;
    };
    f.show = function (index, say) {
      f.index = index;
      const c = f.columns[index], rows = [];
      c.values.forEach(function (v, k) {
        if (v > 0) rows.push({ curve: f.phases[k], name: f.phases[k].label, text: format(v, "s") });
      });
      rows.push({ curve: { colour: 7, dash: 0 }, name: "together", text: format(c.total, "s") });
      tooltip(f, c.from === c.to ? "step " + c.from : "mean of steps " + c.from + " to " + c.to, rows, say);
    };
    f.point = function (px) { if (f.xs.length > 0) f.show(nearest(f.xs, f.x(px)), false); };
    f.leave = function () { f.tip.hidden = true; f.index = -1; };
    f.cross = function () {};
    charts.push(f);
    f.redraw();
    return f;
  }

  function runButtons() {
    const box = byId("runs");
    box.replaceChildren();
    if (!several()) return;
    data.runs.forEach(function (run) {
      const b = element("button");
      b.type = "button";
      b.setAttribute("aria-pressed", String(!hidden.has(run)));
      b.append(swatch({ colour: data.runs.indexOf(run) % colours, dash: 0 }), run.name);
      b.addEventListener("click", function () {
        if (hidden.has(run)) hidden.delete(run); else hidden.add(run);
        b.setAttribute("aria-pressed", String(!hidden.has(run)));
        update();
      });
      box.append(b);
    });
  }

  // settings filters the table of the configuration.
  function settings() {
    const find = byId("find"), only = byId("only"), rows = Array.from(document.querySelectorAll("#settings tbody tr"));
    const filter = function () {
      const text = find.value.toLowerCase();
      rows.forEach(function (row) {
        row.hidden = only.checked && !row.classList.contains("differs") || text !== "" && !row.textContent.toLowerCase().includes(text);
      });
    };
    find.hidden = false;
    byId("only-label").hidden = !several();
    find.addEventListener("input", filter);
    only.addEventListener("change", filter);
    filter();
  }

  // metrics fills the section of all metrics when it is opened.
  function metrics() {
    const box = byId("all-charts"), find = byId("find-metric"), made = [];
    byId("all").addEventListener("toggle", function () {
      if (!byId("all").open || made.length > 0) return;
      const names = new Set();
      data.runs.forEach(function (r) { Object.keys(r.series.train || {}).forEach(function (n) { names.add(n); }); });
      Array.from(names).sort().forEach(function (name, i) {
        const def = { id: "all-" + i, title: name, help: data.meanings[name] || "", phase: "train", scale: "tight", metrics: [{ metric: name, label: "" }] };
        made.push({ name: name.toLowerCase(), figure: chart(def, box).figure });
      });
    });
    find.addEventListener("input", function () {
      made.forEach(function (m) { m.figure.classList.toggle("out", !m.name.includes(find.value.toLowerCase())); });
    });
  }

  function update() {
    byId("time").hidden = false; // a chart that is not displayed has no width
    charts.forEach(function (f) { if (f.figure.offsetParent !== null || f.figure.hidden) f.redraw(); });
    byId("time").hidden = !charts.some(function (f) { return f.columns && !f.figure.hidden; });
    byId("empty").hidden = data.runs.some(function (r) { return Object.keys(r.series).length > 0; });
  }

  runButtons();
  data.charts.forEach(function (def) { chart(def, byId("charts")); });
  byId("time").hidden = false;
  data.runs.forEach(function (run) { timeChart(run, byId("times")); });
  settings();
  metrics();
  byId("smooth").addEventListener("input", function () {
    smoothing = Number(byId("smooth").value);
    update();
  });
  update();
  document.body.classList.add("scripted");
  return { data: data, update: update, element: element, format: format, clock: clock, byId: byId };
})();
