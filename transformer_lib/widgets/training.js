/* Training: scrub through a recorded run; answers and attention form. */

const END = ".";
const NOTHING = "_"; // a token that is no character: padding, or the start
const ROWS = 11; // the ten tokens of a date and the end
const MARKS = { " ": "space", ",": "comma", ".": "full stop", "(": "bracket", ")": "bracket", "/": "slash" };
const LOSSES = [0.05, 10]; // ends of the axis, which is logarithmic
const BEAT = 500; // milliseconds per snapshot while it plays

/** A text of the record to whole percents: one character is a weight or several zeros. */
function decodeMap(text, code) {
  return [...text].flatMap((c) => {
    const place = code.indexOf(c);
    return place <= 100 ? [place] : Array(place - 99).fill(0);
  });
}

/** Weights in percent, one row per written token: of one head, or the mean of all (0). */
function weightsOf(run, { snapshot, example, layer, head }) {
  const { source, maps } = run.examples[example];
  const chosen = maps[snapshot].slice((layer - 1) * run.heads, layer * run.heads)
    .filter((_, k) => head === 0 || k === head - 1)
    .map((text) => decodeMap(text, run.code));
  const width = [...source].length;
  const mean = chosen[0].map((_, i) => shared.sum(chosen.map((map) => map[i])) / chosen.length);
  return Array.from({ length: mean.length / width }, (_, t) => mean.slice(t * width, (t + 1) * width));
}

/** How many of the ten characters are wrong or missing, and whether it ended in time. */
function judge(written, target) {
  const wrong = [...target].filter((c, t) => written[t] !== c).length;
  return { wrong, right: written === target + END };
}

function render({ model, el }) {
  const { h, mark, strong, line, fixed, attributes, clamp } = shared;
  const run = model.get("run");
  const { steps, examples, curve } = run;
  const measured = (key, snapshot) => curve[key][curve.steps.indexOf(steps[snapshot])];
  const last = steps.length - 1;
  const KEYS = ["snapshot", "example", "layer", "head", "place"];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const percent = (x) => `${fixed(x, 1)} %`;
  const tokenName = (c) => ({ [END]: "the end", [NOTHING]: "no character", "-": "dash" })[c] ?? c;
  const characterName = (c) => MARKS[c] ?? c;
  const shown = (c) => (c === END ? "end" : c);

  // -------------------------------------------------------------------- the curves

  const HEIGHT = 232;
  const [LEFT, RIGHT, BELOW] = [46, 14, 40];
  const share = (x, low, high) => (clamp(x, low, high) - low) / (high - low);
  const BANDS = [
    { key: "exact_match", name: "dates right", role: "query", top: 26, bottom: 96,
      text: percent, ticks: [0, 50, 100], tick: (v) => `${v} %`, height: (v) => share(v, 0, 100) },
    { key: "loss", name: "loss", role: "key", top: 128, bottom: HEIGHT - BELOW,
      text: (v) => fixed(v, 3), ticks: [0.1, 1, 10], tick: String,
      height: (v) => share(Math.log10(v), ...LOSSES.map(Math.log10)) },
  ];
  let width = 640;
  // Half of the steps lie in the right quarter: early ones change more.
  const x = (step) => LEFT + (width - LEFT - RIGHT) * Math.sqrt(step / steps[last]);
  const y = (band, value) => band.bottom - (band.bottom - band.top) * band.height(value);
  const frame = h("g", { class: "tl-plot-grid" });
  const cursor = h("line", { class: "tl-cursor", y1: BANDS[0].top - 4, y2: HEIGHT - BELOW + 5 });
  for (const band of BANDS) {
    band.curve = h("path", { class: `tl-curve tl-dial-${band.role}` });
    band.dot = h("circle", { class: `tl-dial-dot-${band.role}`, r: 5 });
    band.label = h("text", { class: `tl-plot-label tl-dial-text-${band.role}` });
  }
  const of = (part) => BANDS.map((band) => band[part]);
  const plot = h("svg", { class: "tl-plot tl-run-plot", height: HEIGHT, "aria-hidden": "true" },
    frame, ...of("curve"), cursor, ...of("dot"), ...of("label"));
  shared.draggable(plot, { move(event) {
    const box = plot.getBoundingClientRect();
    const at = clamp((event.clientX - box.left - LEFT) / (width - LEFT - RIGHT), 0, 1) ** 2 * steps[last];
    const near = steps.map((step) => Math.abs(Math.sqrt(step) - Math.sqrt(at)));
    shared.change(model, { snapshot: near.indexOf(Math.min(...near)) });
  } });

  function drawPlot() {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const text = (at, words, anchor) =>
      h("text", { class: "tl-plot-text", "text-anchor": anchor, ...at }, words);
    const parts = [];
    for (const band of BANDS) {
      for (const value of band.ticks) {
        parts.push(h("line", { x1: LEFT, x2: width - RIGHT, y1: y(band, value), y2: y(band, value) }));
        parts.push(text({ x: LEFT - 6, y: y(band, value) + 4 }, band.tick(value), "end"));
      }
      const points = curve[band.key].map((value, i) => `${x(curve.steps[i]).toFixed(1)},${y(band, value).toFixed(1)}`);
      attributes(band.curve, { d: `M${points.join("L")}` });
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const step = Math.round(steps[last] * share ** 2);
      parts.push(text({ x: x(step), y: HEIGHT - BELOW + 19 }, `${step}`, share === 1 ? "end" : "middle"));
    }
    parts.push(text({ x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 4 }, "step of training", "middle"));
    frame.replaceChildren(...parts);
  }

  // ---------------------------------------------------------------------- the map

  const shades = Array.from({ length: 101 }, (_, w) => shared.shade("weights", w / 100));
  const heading = h("div", { class: "tl-look-row tl-look-head", "aria-hidden": "true" });
  const choose = (place) => shared.change(model, { place });
  const rows = Array.from({ length: ROWS }, (_, t) => {
    const label = h("span", { class: "tl-look-label" });
    const node = h("div", { role: "option", class: "tl-look-row", onfocus: () => choose(t),
      onclick: () => node.focus() }, label);
    return { node, label, cells: [] };
  });
  const list = h("div", { role: "listbox", class: "tl-look-rows", "aria-label": "what it writes",
    onkeydown(event) {
      const t = rows.findIndex(({ node }) => node === event.target);
      const moves = { ArrowUp: t - 1, ArrowDown: t + 1, Home: 0, End: ROWS - 1 };
      if (t < 0 || !(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      rows[clamp(moves[event.key], 0, ROWS - 1)].node.focus();
    } }, ...rows.map(({ node }) => node));
  const map = h("div", { class: "tl-look" },
    h("div", { class: "tl-title" }, "where it looks, in percent: each row asks, the columns answer"), heading, list);

  /** One column per character of the source. */
  function layMap({ source, language }) {
    const characters = [...source];
    map.style.setProperty("--columns", characters.length);
    heading.replaceChildren(h("span", { class: "tl-look-label" }, "writes"),
      ...characters.map((c) => h("span", { lang: language }, c === " " ? "·" : c)));
    for (const row of rows) {
      row.cells = characters.map(() => h("span", { class: "tl-look-cell", "aria-hidden": "true" }));
      row.node.replaceChildren(row.label, ...row.cells);
    }
  }

  /** The written token, and what it should have been. */
  function labelOf(token, wanted) {
    if (token === wanted) return [shown(token)];
    return [token === undefined ? "–" : h("u", { class: "tl-wrong" }, shown(token)),
      mark("muted", ` (${shown(wanted)})`)];
  }

  // ----------------------------------------------------------------- the controls

  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let timer = null;
  function halt() {
    clearInterval(timer);
    timer = null;
    drawPlay();
  }
  const forward = () =>
    shared.change(model, { snapshot: model.get("snapshot") < last ? model.get("snapshot") + 1 : 0 });
  function beat() {
    if (!el.isConnected || model.get("snapshot") === last) halt();
    else forward();
  }
  const play = h("button", { type: "button", class: "tl-button tl-play", onclick() {
    if (timer !== null) return halt();
    forward();
    if (!still.matches) timer = setInterval(beat, BEAT);
    return drawPlay();
  } });
  function drawPlay() {
    play.textContent = timer !== null ? "Pause" : still.matches ? "Next step" : "Play";
    told.setAttribute("aria-live", timer !== null ? "off" : "polite");
  }

  const slider = shared.slider(model, {
    label: "step", min: 0, max: last, step: 1,
    read: () => model.get("snapshot"),
    write: (value) => ({ snapshot: value }),
    text: () => `${steps[model.get("snapshot")]}`,
  });
  function choice(label, options, write) {
    const select = h("select", { class: "tl-select", onchange: () => shared.change(model, write(select.value)) },
      ...options.map(([value, words]) => h("option", { value }, words)));
    return { select, node: h("div", { class: "tl-control" }, h("label", {}, h("span", {}, label), select)) };
  }
  const whichDate = choice("date", examples.map(({ source }, i) => [i, source]), (value) => ({ example: Number(value) }));
  const heads = Array.from({ length: run.layers }, (_, l) => Array.from({ length: run.heads + 1 }, (__, k) =>
    [`${l + 1} ${k}`, `layer ${l + 1}, ${k ? `head ${k}` : "all heads"}`])).flat();
  const whichHead = choice("attention", heads, (value) => {
    const [layer, head] = value.split(" ").map(Number);
    return { layer, head };
  });

  const told = shared.card(el, model, {
    name: "training",
    question: "When does it learn where to look?",
    instruction: "Move through the training, or let it play. Choose a row to read where it looks.",
    parts: [
      plot,
      h("div", { class: "tl-controls" }, play, slider.node),
      h("div", { class: "tl-controls" }, whichDate.node, whichHead.node),
      map,
    ],
    note: `Recorded on a CPU, with seed ${run.seed}; the curves are over ${run.pairs.toLocaleString("en")} dates that were not trained on, and so are the ones shown. `
      + "A wrong character is underlined, and the right one stands behind it.",
    reset: { act() {
      halt();
      shared.change(model, shared.copy(model.get("start")));
    } },
  });

  // ---------------------------------------------------------------- what is told

  function story(now, written, looks) {
    const { target, source } = examples[now.example];
    const { wrong, right } = judge(written, target);
    const said = written.replace(END, "").replaceAll(NOTHING, "");
    const verdict = right ? "right"
      : wrong ? `wrong at ${wrong} of ${target.length} places; ${target} is right`
        : "all characters right, but it does not stop";
    const token = written[now.place];
    const wanted = (target + END)[now.place];
    const parts = [
      line(strong(`step ${steps[now.snapshot]}`), `: ${percent(measured("exact_match", now.snapshot))} of the dates right, loss ${fixed(measured("loss", now.snapshot), 3)}`),
      line("writes ", strong(said || "nothing"), `: ${verdict}`),
    ];
    if (token === undefined) {
      parts.push(line(`place ${now.place + 1}: nothing is written here`));
      return parts;
    }
    const best = looks[now.place].map((weight, i) => [Math.round(weight), i])
      .filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 3);
    const rest = 100 - shared.sum(best.map(([weight]) => weight));
    const characters = [...source];
    parts.push(line(`place ${now.place + 1}, `, strong(tokenName(token)), token === wanted ? "" : ` instead of ${tokenName(wanted)}`, ", looks at ",
      ...shared.joined(best.map(([weight, i]) => [strong(characterName(characters[i])), mark("muted", ` (character ${i + 1})`), ` ${weight} %`]), ", "),
      rest > 0 ? `, others ${rest} %` : ""));
    return parts;
  }

  // --------------------------------------------------------------------- drawing

  let laid = null;

  function draw() {
    const now = state();
    const example = examples[now.example];
    const written = example.written[now.snapshot];
    const looks = weightsOf(run, now);
    if (laid !== now.example) layMap(example);
    laid = now.example;
    slider.draw();
    whichDate.select.value = now.example;
    whichHead.select.value = `${now.layer} ${now.head}`;
    attributes(cursor, { x1: x(steps[now.snapshot]), x2: x(steps[now.snapshot]) });
    for (const band of BANDS) {
      const value = measured(band.key, now.snapshot);
      const at = x(steps[now.snapshot]);
      const left = at > width / 2;
      attributes(band.dot, { cx: at, cy: y(band, value) });
      attributes(band.label, { x: at + (left ? -9 : 9), "text-anchor": left ? "end" : "start", y: band.top - 8 });
      band.label.textContent = `${band.name} ${band.text(value)}`;
    }
    rows.forEach(({ node, label, cells }, t) => {
      const chosen = t === now.place;
      label.replaceChildren(h("span", { class: "tl-hidden" }, `place ${t + 1}: `),
        ...labelOf(written[t], (example.target + END)[t]));
      node.tabIndex = chosen ? 0 : -1;
      node.setAttribute("aria-selected", chosen);
      cells.forEach((cell, i) => {
        const weight = looks[t] ? Math.round(looks[t][i]) : 0;
        shared.paint(cell, shades[weight]);
        cell.textContent = chosen && weight ? `${weight}` : "";
      });
    });
    told.replaceChildren(...story(now, written, looks));
  }

  drawPlay();
  still.addEventListener("change", halt);
  const stop = shared.onWidth(plot, (now) => {
    width = now;
    drawPlot();
    draw();
  });
  drawPlot();
  const unwatch = shared.watch(model, draw);
  return () => { halt(); still.removeEventListener("change", halt); stop(); unwatch(); };
}

export default { render };
