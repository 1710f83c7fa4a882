"use strict";
// The live part of the page. It follows the stream of events and changes the data of page.js. Text is inserted as text nodes.
(function () {
  const byId = report.byId, element = report.element, clock = report.clock;
  const maxPoints = 4000; // of a series; beyond, every second pair of points is dropped
  let phase = null, received = 0; // the newest phase, and when it was received
  let over = false;
  let selected = 0, chosen = false, shownTurns = -1; // without a choice of the reader the page follows a running episode

  const source = new EventSource("events");
  const on = function (name, f) { source.addEventListener(name, function (event) { f(JSON.parse(event.data)); }); };

  function state(name, text) {
    byId("live-state").dataset.state = name;
    byId("live-state").textContent = text;
  }

  source.addEventListener("open", function () { state("running", "running"); });
  source.addEventListener("error", function () {
    if (!over) state("lost", "connection lost, trying again");
  });

  on("run", function (m) {
    const first = report.data.runs.length === 0;
    report.data.runs[0] = m.run;
    if (first) { // the page was opened before the run folder
      location.reload();
      return;
    }
    take(m);
    report.update();
  });

  on("grown", function (m) {
    const run = report.data.runs[0];
    if (!run) return;
    m.lines.forEach(function (l) {
      const series = run.series[l.phase] || (run.series[l.phase] = {});
      for (const name in l.metrics) add(series[name] || (series[name] = { x: [], y: [] }), l.step, l.metrics[name]);
    });
    take(m);
    report.update();
  });

  // add appends a point to a series, which may have it already.
  function add(s, x, y) {
    const n = s.x.length;
    if (n > 0 && x <= s.x[n - 1]) {
      if (x === s.x[n - 1]) s.y[n - 1] = y;
      return;
    }
    s.x.push(x);
    s.y.push(y);
    if (n + 1 > maxPoints) {
      const keep = function (_, i) { return i > n - 200 || i % 4 < 2; };
      s.y = s.y.filter(keep);
      s.x = s.x.filter(keep);
    }
  }

  // take shows the facts of a message in the tables.
  function take(m) {
    const run = report.data.runs[0], row = m.row;
    run.steps = m.steps;
    run.validations = m.validations;
    const cells = [row.steps, row.success, row.last, row.interval, row.best, row.time, row.updated];
    const tr = document.querySelector("#summary tbody tr");
    if (tr) {
      const s = tr.children[1].querySelector(".state");
      s.dataset.state = s.textContent = row.state;
      cells.forEach(function (text, i) { tr.children[i + 2].textContent = text; });
    }
    const rows = [];
    (m.validations || []).forEach(function (v) {
      v.results.forEach(function (r) {
        const line = element("tr");
        const fixed = function (x, digits) { return x === null ? "NaN" : x.toFixed(digits); };
        [run.name, v.label, r.env, fixed(r.success, 3), fixed(r.low, 3) + " to " + fixed(r.high, 3), fixed(r.score, 3), fixed(r.turns, 1), fixed(r.episodes, 0)]
          .forEach(function (text) { line.append(element("td", "", text)); });
        rows.push(line);
      });
    });
    byId("validation-rows").replaceChildren.apply(byId("validation-rows"), rows);
    byId("validations").hidden = rows.length === 0;
    byId("episode-links").replaceChildren.apply(byId("episode-links"), m.links.map(function (l) {
      const item = element("li"), a = element("a", "", l.label);
      a.href = l.href;
      item.append(a);
      return item;
    }));
    byId("episodes").hidden = m.links.length === 0;
  }

  on("phase", function (p) {
    phase = p;
    received = performance.now();
    show();
  });

  // show displays the phase and the remaining times, which go on between two messages.
  function show() {
    if (!phase || over) return;
    const since = (performance.now() - received) / 1000, took = phase.seconds + since;
    byId("live-phase").textContent = (phase.step > 0 ? "step " + phase.step + "/" + phase.steps + " " : "") + phase.label + (phase.of ? " " + phase.of : "");
    const notes = [];
    if (phase.total > 0) notes.push(phase.n + "/" + phase.total);
    if (phase.note) notes.push(phase.note);
    if (phase.tokens >= 0) notes.push(phase.tokens + " tokens sampled");
    notes.push(clock(took));
    byId("live-note").textContent = notes.join(", ");
    const bar = byId("live-phase-bar");
    if (phase.total > 0) bar.value = phase.n / phase.total;
    else if (phase.prior > 0) bar.value = Math.min(0.99, took / phase.prior);
    else bar.removeAttribute("value");
    const left = phase.left - since;
    byId("live-phase-left").textContent = left > 0 ? clock(left) + " left" : "";
    const run = report.data.runs[0], steps = run && run.steps;
    if (steps > 0) {
      const done = run.series.train && run.series.train["timing_s/step"] ? run.series.train["timing_s/step"].x.slice(-1)[0] : 0;
      byId("live-run-bar").value = done / steps;
    } else byId("live-run-bar").value = 0;
    byId("live-run-left").textContent = phase.run_left >= 0 ? (phase.at_least ? "at least " : "") + clock(Math.max(0, phase.run_left - since)) + " left" : "";
  }
  setInterval(show, 1000);

  on("playing", function (m) {
    byId("live-episodes").hidden = byId("live-detail").hidden = m.episodes.length === 0;
    byId("live-running").textContent = m.running + " running";
    const list = byId("live-list"), focused = document.activeElement && document.activeElement.dataset.id;
    const items = m.episodes.map(function (e) {
      const item = element("li"), b = element("button"), dot = element("span", "dot", e.outcome ? "\u25cf" : "\u25cb");
      b.type = "button";
      b.dataset.id = String(e.id);
      b.setAttribute("aria-pressed", String(e.id === selected));
      dot.dataset.outcome = !e.outcome ? "" : e.outcome === "success" ? "success" : /_error$|^cancelled$/.test(e.outcome) ? "failed" : "ended";
      b.append(dot, element("span", "task", e.task + " #" + e.sample), element("span", "action", e.outcome || e.action),
        element("span", "count", e.turns + (e.turns === 1 ? " turn" : " turns")));
      b.title = e.env + " " + e.task + ", " + (e.outcome || "running") + ", reward " + e.reward;
      b.addEventListener("click", function () {
        chosen = true;
        select(e.id);
      });
      item.append(b);
      return item;
    });
    list.replaceChildren.apply(list, items);
    if (focused) {
      const b = list.querySelector('[data-id="' + Number(focused) + '"]');
      if (b) b.focus();
    }
    const current = m.episodes.find(function (e) { return e.id === selected; });
    if (current && (current.turns !== shownTurns || current.outcome)) fetchTurns();
    if (!chosen && (!current || current.outcome)) {
      const next = m.episodes.find(function (e) { return !e.outcome; }) || (current ? null : m.episodes[0]);
      if (next) select(next.id);
    }
  });

  function select(id) {
    selected = id;
    shownTurns = -1;
    byId("live-list").querySelectorAll("button").forEach(function (b) { b.setAttribute("aria-pressed", String(Number(b.dataset.id) === id)); });
    fetchTurns();
  }

  function fetchTurns() {
    const id = selected;
    fetch("episode?id=" + id).then(function (r) { return r.ok ? r.json() : null; }).then(function (e) {
      if (!e || id !== selected) return;
      shownTurns = e.turns;
      const box = byId("live-turns"), end = box.scrollTop + box.clientHeight > box.scrollHeight - 40;
      byId("live-title").textContent = e.task + " #" + e.sample + (e.outcome ? ": " + e.outcome + ", reward " + report.format(e.reward) : ", turn " + (e.turns + 1));
      const parts = [];
      const part = function (title, className, text) {
        parts.push(element("h4", "", title), element("pre", className, text));
      };
      if (e.kept.length === 0 || e.kept[0].nr === 1) part("start", "seen", e.first);
      e.kept.forEach(function (t) {
        part("turn " + t.nr + (t.parsed ? "" : ", no action found"), "", t.text);
        part("observation, reward " + report.format(t.reward), "seen", t.observation);
      });
      box.replaceChildren.apply(box, parts);
      if (end) box.scrollTop = box.scrollHeight;
    }).catch(function () {}); // the state line shows a lost connection
  }

  on("log", function (m) {
    const box = byId("live-log"), end = box.scrollTop + box.clientHeight > box.scrollHeight - 40;
    if (m.anew) box.replaceChildren();
    (m.lines || []).forEach(function (text) {
      const level = / level=(WARN|ERROR)/.exec(text);
      box.append(element("div", level ? { WARN: "warn", ERROR: "error" }[level[1]] : "", text));
    });
    while (box.childElementCount > 300) box.firstElementChild.remove();
    if (end) box.scrollTop = box.scrollHeight;
  });

  on("end", function (m) {
    over = true;
    source.close();
    state(m.state, "the run has ended: " + m.state);
    byId("live-phase").textContent = m.reason || "";
    byId("live-note").textContent = "This page keeps its data until it is closed.";
    document.querySelectorAll("#live .bars, #live-save, #episodes").forEach(function (e) { e.hidden = true; });
  });
})();
