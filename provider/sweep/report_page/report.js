// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const total = data.rows;
  const columns = new Map(data.columns.map((c) => [c.name, c]));
  for (const c of data.columns) {
    if (c.texts) c.values = c.at.map((i) => c.texts[i]);
    c.text = c.values.some((v) => typeof v === "string");
  }
  const value = (name, row) => (columns.has(name) ? columns.get(name).values[row] : null);
  const byId = (id) => document.getElementById(id);
  const PAGE = 100;
  const CHOICES = ["status", "verdict", "op", "dtype", "engine", "target"];
  const SEARCHED = ["case", "op", "dtype", "engine", "target", "status", "verdict", "rules",
    "detail", "tags"];

  const node = (name, about = {}, ...children) => {
    const found = document.createElement(name);
    for (const [key, item] of Object.entries(about)) {
      if (key === "class") found.className = item;
      else if (key in found && !key.startsWith("aria")) found[key] = item;
      else found.setAttribute(key, item);
    }
    found.append(...children);
    return found;
  };
  const shown = (v) => {
    if (v === null || v === undefined) return "";
    if (typeof v !== "number") return String(v);
    if (Number.isInteger(v)) return v.toLocaleString("en");
    const size = Math.abs(v);
    return size >= 1e6 || size < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4)));
  };

  // ---------------------------------------------------------------- filter and sort

  const haystack = Array.from({ length: total }, (_, row) =>
    SEARCHED.map((name) => value(name, row) || "").join("\n").toLowerCase());
  const order = new Map(); // of the texts of a column
  const ranks = (c) => {
    if (!order.has(c.name)) {
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      const sorted = [...new Set(c.values)].sort(compare);
      const rank = new Map(sorted.map((text, i) => [text, i]));
      order.set(c.name, c.values.map((text) => (text === "" ? null : rank.get(text))));
    }
    return order.get(c.name);
  };
  const state = { words: "", chosen: new Map(), column: "", down: false, page: 0, open: -1 };
  let matching = [];

  const matches = () => {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = words.filter((w) => w[0] !== "-");
    const unwanted = words.filter((w) => w[0] === "-" && w.length > 1).map((w) => w.slice(1));
    const exact = [...state.chosen].filter(([, text]) => text !== "*");
    const found = [];
    for (let row = 0; row < total; row++) {
      const text = haystack[row];
      if (exact.every(([name, only]) => value(name, row) === only)
        && wanted.every((w) => text.includes(w)) && !unwanted.some((w) => text.includes(w))) {
        found.push(row);
      }
    }
    return found;
  };
  const sorted = (rows) => {
    const c = columns.get(state.column);
    if (!c) return rows;
    const keys = c.text ? ranks(c) : c.values;
    const sign = state.down ? -1 : 1;
    // What has no value comes last, whatever the direction.
    return rows.sort((a, b) => (keys[a] === null || keys[b] === null
      ? (keys[a] === null) - (keys[b] === null) : sign * (keys[a] - keys[b])) || a - b);
  };
  const update = ({ page = 0, open = -1 } = {}) => {
    matching = sorted(matches());
    Object.assign(state, { page, open });
    drawTable();
    drawCharts();
  };

  // ---------------------------------------------------------------- the table

  const listed = data.columns.filter((c) => !c.hidden);
  const pages = () => Math.max(1, Math.ceil(matching.length / PAGE));
  for (const c of listed) {
    const button = node("button", { type: "button", title: c.about }, c.label);
    button.addEventListener("click", () => {
      state.down = state.column === c.name ? !state.down : !c.text;
      state.column = c.name;
      update();
    });
    byId("head").append(node("th", { scope: "col", class: c.text ? "" : "n", id: `by-${c.name}` },
      button));
  }
  const opened = (row) => {
    const list = node("dl");
    for (const c of data.columns) {
      const text = c.text ? c.values[row] : shown(c.values[row]);
      if (text === "" || text === null) continue;
      const long = c.name === "command" || c.name === "detail";
      const copy = node("button", { type: "button" }, "copy");
      copy.addEventListener("click", () => navigator.clipboard?.writeText(text));
      list.append(node("div", { class: long ? "all" : "" },
        node("dt", {}, node("span", { class: "label" }, `${c.label}: `)),
        node("dd", {}, c.name === "command" ? node("code", {}, text) : text,
          ...(c.name === "command" ? [" ", copy] : []))));
    }
    return node("tr", {}, node("td", { class: "open", colSpan: listed.length }, list));
  };
  const cell = (c, row) => {
    const item = c.values[row];
    const text = shown(item);
    if (c.name === "case") {
      const button = node("button", { type: "button", "aria-expanded": state.open === row }, text);
      button.addEventListener("click", () => show(row));
      return node("td", { title: text }, button);
    }
    const colour = c.name === "status" ? `status-${item}` : c.name === "verdict"
      ? `change-${item}` : "";
    return node("td", { class: `${c.text ? "" : "n"} ${colour}`, title: c.text ? text : "" }, text);
  };
  const drawTable = () => {
    const first = state.page * PAGE;
    const rows = matching.slice(first, first + PAGE);
    const lines = [];
    for (const row of rows) {
      const line = node("tr", { id: `line-${row}` }, ...listed.map((c) => cell(c, row)));
      lines.push(line, ...(state.open === row ? [opened(row)] : []));
    }
    byId("body").replaceChildren(...lines);
    for (const c of listed) {
      const way = state.column !== c.name ? "none" : state.down ? "descending" : "ascending";
      byId(`by-${c.name}`).setAttribute("aria-sort", way);
      byId(`by-${c.name}`).firstChild.textContent =
        c.label + { none: "", descending: " ▾", ascending: " ▴" }[way];
    }
    byId("found").textContent = `${matching.length.toLocaleString("en")} of `
      + `${total.toLocaleString("en")} rows`;
    byId("page").textContent = `page ${state.page + 1} of ${pages()}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page + 1 >= pages();
  };
  const show = (row) => { // opens it, closes it if it is open
    const at = matching.indexOf(row);
    state.open = state.open === row ? -1 : row;
    state.page = Math.floor(at / PAGE);
    drawTable();
    byId(`line-${row}`).querySelector("button").focus({ preventScroll: true });
    byId(`line-${row}`).scrollIntoView({ block: "nearest" });
  };
  const reveal = (row) => { // whatever the filter says
    if (!matching.includes(row)) reset();
    state.open = -1;
    show(row);
  };
  const turn = (by) => {
    const page = state.page + by;
    if (page < 0 || page >= pages()) return;
    state.page = page;
    drawTable();
    byId("body").querySelector("button")?.focus();
  };
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  byId("body").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const leaf = { PageDown: 1, PageUp: -1 }[event.key];
    if (!step && !leaf) return;
    event.preventDefault();
    if (leaf) return turn(leaf);
    const buttons = [...byId("body").querySelectorAll("tr[id] button")];
    buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  });

  // ---------------------------------------------------------------- what is shown

  for (const name of CHOICES) {
    const c = columns.get(name);
    if (!c || !c.text) continue;
    const texts = [...new Set(c.values)].sort();
    if (texts.length < 2) continue;
    const select = node("select", { id: `choice-${name}` }, new Option("all", "*"),
      ...texts.map((text) => new Option(text || "none", text)));
    select.addEventListener("change", () => {
      state.chosen.set(name, select.value);
      update();
    });
    byId("choices").append(node("label", {}, `${c.label} `, select));
  }
  const choose = (name, text) => {
    const select = byId(`choice-${name}`);
    if (select) select.value = text;
    state.chosen.set(name, text);
  };
  const reset = () => {
    byId("words").value = state.words = "";
    for (const select of byId("choices").querySelectorAll("select")) select.value = "*";
    state.chosen.clear();
    update();
  };
  byId("words").addEventListener("input", () => {
    state.words = byId("words").value;
    update();
  });
  byId("filter").addEventListener("reset", (event) => {
    event.preventDefault();
    reset();
  });
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-filter]");
    if (link) {
      choose(link.dataset.filter, link.dataset.value);
      update();
    }
  });
  const follow = () => {
    const row = /^#row-(\d+)$/.exec(location.hash);
    if (row && Number(row[1]) < total) reveal(Number(row[1]));
  };
  addEventListener("hashchange", follow);

  // ---------------------------------------------------------------- charts

  const SVG = "http://www.w3.org/2000/svg";
  const shape = (name, about) => {
    const found = document.createElementNS(SVG, name);
    for (const [key, item] of Object.entries(about)) {
      if (key === "text") found.textContent = item;
      else found.setAttribute(key, item);
    }
    return found;
  };
  const WIDTH = 460, HEIGHT = 340, LEFT = 58, BOTTOM = 40, TOP = 10, RIGHT = 12;
  const axis = (values, from, to) => {
    let low = Infinity, high = -Infinity;
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    const a = Math.log10(low) - 0.1, b = Math.log10(high) + 0.1;
    const place = (v) => from + (Math.log10(v) - a) / (b - a) * (to - from);
    const ticks = [];
    for (let e = Math.floor(a); e <= b; e++) {
      for (const m of b - a < 1.5 ? [1, 2, 5] : [1]) {
        const v = m * 10 ** e;
        if (Math.log10(v) >= a && Math.log10(v) <= b) ticks.push(v);
      }
    }
    const every = Math.ceil(ticks.length / 9);
    return { place, ticks: ticks.filter((_, i) => i % every === 0), ends: [10 ** a, 10 ** b] };
  };
  const tick = (v) => {
    const unit = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]
      .find(([size]) => v >= size);
    return unit ? `${Number((v / unit[0]).toPrecision(3))}${unit[1]}` : String(Number(v.toPrecision(3)));
  };
  // points: {x, y, row, series}; lines: {points: [[x, y]...], series} or {equal: factor}
  const chart = (id, { points, names, x, y, square = false, lines = [] }) => {
    const figure = byId(id);
    figure.querySelectorAll("svg, .tip, .keys, .none").forEach((old) => old.remove());
    if (!points.length) {
      figure.append(node("p", { class: "none hint" }, "No rows with these numbers."));
      return;
    }
    const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
      "aria-label": `${points.length} points: ${y} over ${x}` });
    const drawn = lines.flatMap((line) => line.points || []);
    const xs = [...points.map((p) => p.x), ...drawn.map((p) => p[0])];
    const ys = [...points.map((p) => p.y), ...drawn.map((p) => p[1])];
    const h = axis(square ? [...xs, ...ys] : xs, LEFT, WIDTH - RIGHT);
    const v = axis(square ? [...xs, ...ys] : ys, HEIGHT - BOTTOM, TOP);
    for (const t of h.ticks) {
      svg.append(shape("path", { class: "grid", d: `M${h.place(t)} ${TOP}V${HEIGHT - BOTTOM}` }),
        shape("text", { x: h.place(t), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle", text: tick(t) }));
    }
    for (const t of v.ticks) {
      svg.append(shape("path", { class: "grid", d: `M${LEFT} ${v.place(t)}H${WIDTH - RIGHT}` }),
        shape("text", { x: LEFT - 5, y: v.place(t) + 4, "text-anchor": "end", text: tick(t) }));
    }
    svg.append(
      shape("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle", text: x }),
      shape("text", { x: 12, y: (HEIGHT - BOTTOM) / 2, "text-anchor": "middle", text: y,
        transform: `rotate(-90 12 ${(HEIGHT - BOTTOM) / 2})` }));
    for (const line of lines) {
      const path = line.points || h.ends.map((end) => [end, end * line.equal])
        .filter(([, b]) => b >= v.ends[0] && b <= v.ends[1] * 1.0001);
      if (line.equal) { // clipped to the frame
        const [a, b] = h.ends;
        path.length = 0;
        path.push([Math.max(a, v.ends[0] / line.equal), Math.max(a * line.equal, v.ends[0])],
          [Math.min(b, v.ends[1] / line.equal), Math.min(b * line.equal, v.ends[1])]);
      }
      svg.append(shape("path", { class: line.equal ? "guide" : `roof s${line.series % 8}`,
        d: "M" + path.map(([a, b]) => `${h.place(a).toFixed(1)} ${v.place(b).toFixed(1)}`).join("L") }));
    }
    // One path for each series: ten thousand elements would take a second.
    const parts = names.map(() => []);
    const places = points.map((p) => {
      const at = [h.place(p.x), v.place(p.y)];
      parts[p.series].push(`M${at[0].toFixed(1)} ${at[1].toFixed(1)}h0`);
      return at;
    });
    parts.forEach((part, i) => svg.append(
      shape("path", { class: `points s${i % 8}`, d: part.join("") })));
    const ring = shape("circle", { class: "near", r: 6, visibility: "hidden" });
    svg.append(ring);
    const tip = node("div", { class: "tip", hidden: true });
    const keys = node("div", { class: "keys" });
    names.forEach((name, i) => {
      if (!parts[i].length) return;
      const mark = shape("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" });
      mark.append(shape("path", { class: `points s${i % 8}`, d: "M6 6h0", "stroke-width": 9 }));
      keys.append(node("span", { class: "key" }, mark, `${name} (${parts[i].length})`));
    });
    figure.append(svg, keys, tip);
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = WIDTH / box.width;
      const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
      let best = -1, least = 200;
      places.forEach(([a, b], i) => {
        const d = (a - px) ** 2 + (b - py) ** 2;
        if (d < least) [best, least] = [i, d];
      });
      return best;
    };
    svg.addEventListener("mousemove", (event) => {
      const at = nearest(event);
      tip.hidden = at < 0;
      ring.setAttribute("visibility", at < 0 ? "hidden" : "visible");
      if (at < 0) return;
      const p = points[at];
      ring.setAttribute("cx", places[at][0]);
      ring.setAttribute("cy", places[at][1]);
      tip.textContent = `${value("case", p.row)} ${value("dtype", p.row)}\n`
        + `${names[p.series]}\n${x}: ${shown(p.x)}\n${y}: ${shown(p.y)}`;
      const [box, outer] = [svg, figure].map((one) => one.getBoundingClientRect());
      const scale = box.width / WIDTH;
      tip.style.left = `${Math.min(places[at][0], WIDTH - 180) * scale + 10}px`;
      tip.style.top = `${box.top - outer.top + places[at][1] * scale + 12}px`;
    });
    svg.addEventListener("mouseleave", () => {
      tip.hidden = true;
      ring.setAttribute("visibility", "hidden");
    });
    svg.addEventListener("click", (event) => {
      const at = nearest(event);
      if (at >= 0) reveal(points[at].row);
    });
  };

  const timed = (row) => value("status", row) === "ok" && value("median_us", row) > 0;
  const engines = [...new Set(columns.get("engine")?.values || [])];
  const series = new Map(engines.map((name, i) => [name, i]));
  const problem = (row) => ["case", "dtype", "target"].map((name) => value(name, row)).join("\n");
  const timedOf = new Map(engines.map((name) => [name, new Map()]));
  for (let row = 0; row < total; row++) {
    if (timed(row)) timedOf.get(value("engine", row)).set(problem(row), row);
  }
  const measured = engines.filter((name) => timedOf.get(name).size);
  [["engine-x", 1], ["engine-y", 0]].forEach(([id, at]) => {
    byId(id).append(...measured.map((name) => new Option(name, name)));
    if (measured.length) byId(id).value = measured[Math.min(at, measured.length - 1)];
    byId(id).addEventListener("change", () => drawScatter());
  });
  byId("size-of").addEventListener("change", () => drawSize());
  const drawScatter = () => {
    const [a, b] = [byId("engine-x").value, byId("engine-y").value];
    const points = [];
    const problems = new Set(matching.map(problem));
    for (const name of a && b && a !== b ? problems : []) {
      const [one, other] = [timedOf.get(a).get(name), timedOf.get(b).get(name)];
      if (one === undefined || other === undefined) continue;
      const [x, y] = [value("median_us", one), value("median_us", other)];
      points.push({ x, y, row: other, series: y > x ? 1 : 0 });
    }
    chart("scatter", { points, names: [`${b} is faster`, `${b} is slower`], square: true,
      x: `time of ${a}, µs`, y: `time of ${b}, µs`, lines: [{ equal: 1 }, { equal: 2 }, { equal: 0.5 }] });
  };
  const drawRoofline = () => {
    const points = [];
    const roofs = new Map();
    for (const row of matching) {
      const [flops, bytes, y] = ["flops", "bytes", "tflops"].map((name) => value(name, row));
      if (!(flops > 0 && bytes > 0 && y > 0)) continue;
      const at = series.get(value("engine", row));
      points.push({ x: flops / bytes, y, row, series: at });
      const share = value("roofline", row) / 100;
      if (share > 0) {
        const kind = `${value("target", row)} ${value("dtype", row)}`;
        if (!roofs.has(kind)) roofs.set(kind, []);
        roofs.get(kind).push([flops / bytes, y / share]);
      }
    }
    // What share of the limit each row reaches says where the limit is.
    const lines = [...roofs.values()].map((roof) => ({ series: 7,
      points: roof.sort((p, q) => p[0] - q[0]).filter((p, i) => i === 0 || p[0] > roof[i - 1][0] * 1.02
        || i === roof.length - 1) }));
    chart("roofline", { points, names: engines, lines, x: "operations / byte", y: "TFLOP/s" });
  };
  const drawSize = () => {
    const of = byId("size-of").value;
    const points = [];
    for (const row of matching) {
      const x = value(of, row);
      if (x > 0 && timed(row)) {
        points.push({ x, y: value("median_us", row), row, series: series.get(value("engine", row)) });
      }
    }
    chart("size", { points, names: engines, y: "time, µs",
      x: of === "flops" ? "operations" : "bytes of inputs and outputs" });
  };
  const drawCharts = () => {
    drawScatter();
    drawRoofline();
    drawSize();
  };

  update();
  follow();
})();
