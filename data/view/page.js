"use strict";
(function () {
  const articles = Array.from(document.querySelectorAll("article"));
  const form = document.getElementById("filter");
  const list = document.getElementById("list");
  const count = document.getElementById("count");
  document.body.classList.add("scripted");
  form.hidden = false;

  const episodes = articles.map(function (article, nr) {
    const d = article.dataset;
    return { nr: nr, article: article, task: d.task, env: d.env, outcome: d.outcome, source: d.source, origin: d.origin, sample: d.sample,
      reward: Number(d.reward), turns: Number(d.turns), stream: null, words: null, mean: null };
  });

  // Text is inserted into the page as text nodes, never as markup.
  function element(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  function streamOf(episode) {
    if (!episode.stream) episode.stream = JSON.parse(episode.article.querySelector("script").textContent);
    return episode.stream;
  }

  // meanOf returns the mean log-prob of the sampled tokens.
  function meanOf(episode) {
    if (episode.mean === null) {
      const s = streamOf(episode);
      let sum = 0, n = 0;
      for (let i = 0; i < s.lp.length; i++) {
        if (s.mask[i] === "1" && s.lp[i] !== null) { sum += s.lp[i]; n++; }
      }
      episode.mean = n > 0 ? sum / n : 0;
    }
    return episode.mean;
  }

  // token returns the element of a token. The colour of a sampled token goes from red (unlikely) to green (certain).
  function token(s, i) {
    const text = s.text ? s.text[i] : "[" + s.ids[i] + "]";
    const span = element("span", "", text.replace(/\n/g, "\u23ce\n") || "\u00b7");
    let title = "id " + s.ids[i];
    if (s.mask[i] === "1") {
      const lp = s.lp[i];
      if (lp !== null && lp !== undefined) {
        const p = Math.exp(lp);
        span.style.backgroundColor = "hsla(" + Math.round(120 * p) + ", 75%, 50%, " + (0.15 + 0.45 * (1 - p)).toFixed(3) + ")";
        title += ", log-prob " + lp + ", p " + p.toPrecision(3);
      }
      title += ", mask 1";
    } else {
      span.className = "given";
      title += ", mask 0";
    }
    span.title = title;
    return span;
  }

  function fill(pre, s, start, end) {
    const all = document.createDocumentFragment();
    for (let i = start; i < end; i++) all.appendChild(token(s, i));
    pre.replaceChildren(all);
  }

  // colour replaces the replies of an episode by coloured tokens. A second call does nothing.
  function colour(episode) {
    if (episode.coloured) return;
    episode.coloured = true;
    const s = streamOf(episode);
    if (s.text) {
      episode.article.querySelectorAll(".reply").forEach(function (pre) {
        const start = Number(pre.dataset.start), end = Number(pre.dataset.end);
        if (end > start) fill(pre, s, start, end);
      });
    }
    const details = episode.article.querySelector("details.all");
    details.addEventListener("toggle", function () {
      const pre = details.querySelector("pre");
      if (details.open && !pre.firstChild) fill(pre, s, 0, s.ids.length);
    });
  }

  let shown = [];
  let current = null;

  // show displays an episode. With scroll it scrolls the page to the episode, which
  // may be below the list.
  function show(episode, scroll) {
    if (current) {
      current.article.classList.remove("on");
      if (current.button) current.button.classList.remove("on");
    }
    current = episode;
    if (!episode) return;
    colour(episode);
    episode.article.classList.add("on");
    if (episode.button) {
      episode.button.classList.add("on");
      episode.button.scrollIntoView({ block: "nearest" });
    }
    episode.article.parentElement.scrollTop = 0;
    if (scroll) episode.article.scrollIntoView();
    // Browsers scroll to the hash of a loaded page, so a page without a hash gets one only when an episode is selected.
    if ((scroll || location.hash) && location.hash !== "#e" + episode.nr) history.replaceState(null, "", "#e" + episode.nr);
  }

  function matches(episode) {
    const f = form.elements;
    if (f.env.value && episode.env !== f.env.value) return false;
    if (f.outcome.value && episode.outcome !== f.outcome.value) return false;
    if (f.source.value && episode.source !== f.source.value) return false;
    const text = f.text.value.toLowerCase();
    if (!text) return true;
    if (episode.words === null) {
      // The text is the same before and after colour splits the replies into tokens.
      episode.words = episode.article.textContent.toLowerCase();
    }
    return episode.words.includes(text);
  }

  const keys = {
    "reward": function (e) { return e.reward; },
    "-reward": function (e) { return -e.reward; },
    "lp": meanOf,
    "-turns": function (e) { return -e.turns; }
  };

  // The list shows the origin of episodes, such as their step, if there are several.
  const severalOrigins = new Set(episodes.map(function (e) { return e.origin; })).size > 1;

  function update() {
    shown = episodes.filter(matches);
    const key = keys[form.elements.order.value];
    if (key) shown.sort(function (a, b) { return key(a) - key(b) || a.nr - b.nr; });
    const items = document.createDocumentFragment();
    let won = 0;
    shown.forEach(function (episode) {
      if (episode.outcome === "success") won++;
      if (!episode.button) {
        episode.button = element("button");
        episode.button.type = "button";
        const dot = element("span", "dot", "\u25cf");
        dot.dataset.outcome = episode.outcome;
        dot.title = episode.outcome;
        episode.button.append(dot, element("span", "name", episode.task + " #" + episode.sample));
        if (severalOrigins || episode.origin.startsWith("step ")) episode.button.append(element("span", "origin", episode.origin));
        episode.button.append(element("span", "reward", episode.reward + ", " + episode.turns + " t"));
        episode.button.title = episode.task + ", " + episode.outcome + ", " + episode.source;
        episode.button.addEventListener("click", function () { show(episode, true); });
      }
      const item = element("li");
      item.append(episode.button);
      items.append(item);
    });
    list.replaceChildren(items);
    count.textContent = shown.length + " of " + episodes.length + " episodes, " + won + " solved";
    if (!shown.includes(current)) show(shown.length > 0 ? shown[0] : null);
  }

  function options(name) {
    const select = form.elements[name];
    const values = Array.from(new Set(episodes.map(function (e) { return e[name]; }))).sort();
    values.forEach(function (v) {
      const o = element("option", "", v);
      o.value = v;
      select.append(o);
    });
    if (values.length < 2) select.hidden = true;
  }
  ["env", "outcome", "source"].forEach(options);

  function ofHash() {
    const m = /^#e(\d+)$/.exec(location.hash);
    return m ? episodes[Number(m[1])] : undefined;
  }

  form.addEventListener("input", update);
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("hashchange", function () {
    const episode = ofHash();
    if (episode) show(episode, true);
  });
  document.addEventListener("keydown", function (event) {
    if (event.target.closest && event.target.closest("input, select")) return;
    const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = shown[shown.indexOf(current) + (step || 0)];
    if (!step || !next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    show(next, true);
  });

  const wanted = ofHash();
  if (wanted) current = wanted;
  update();
  if (wanted) show(wanted, true);
})();
