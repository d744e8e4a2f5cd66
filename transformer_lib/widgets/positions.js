/* Positions: vectors of places, and what a dot product can tell of their distance. */

const SCHEMES = ["sinusoids", "index", "index / length", "RoPE"];
const WIDEST = 32;
const FARTHEST = 40; // places
const CLOCKS = 8; // pairs that are drawn as clocks
const LEVELS = 32; // of colour

const turns = (scheme) => scheme === "sinusoids" || scheme === "RoPE";

/** Radians per place of pair `i`. */
const rate = ({ base, width }, i) => base ** ((-2 * i) / width);

/** One row per place. */
function vectors(now) {
  const { scheme, width, length } = now;
  return Array.from({ length }, (_, t) =>
    Array.from({ length: width }, (__, c) => {
      if (scheme === "index") return t;
      if (scheme === "index / length") return t / length;
      const angle = t * rate(now, Math.floor(c / 2));
      const sine = (c % 2 === 0) === (scheme === "sinusoids");
      return sine ? Math.sin(angle) : Math.cos(angle);
    }));
}

/** Every dot product, and for each offset the smallest and largest among its pairs. */
function compare(P) {
  const products = P.map((p) => P.map((q) => shared.dot(p, q)));
  const spread = new Map();
  products.forEach((row, s) => row.forEach((product, t) => {
    const seen = spread.get(t - s);
    if (!seen) spread.set(t - s, [product, product]);
    else {
      seen[0] = Math.min(seen[0], product);
      seen[1] = Math.max(seen[1], product);
    }
  }));
  return { products, spread };
}

function render({ model, el }) {
  const { h, mark, strong, sub, line, joined, fixed, short, attributes, clamp, MINUS } = shared;
  const keys = ["scheme", "base", "width", "length", "asks", "answers"];
  const state = () => Object.fromEntries(keys.map((key) => [key, model.get(key)]));
  const i = (letter) => h("i", {}, letter);
  const digits = (scheme) => (scheme === "index" ? 0 : 2);
  const text = (className, at, words, anchor = "start") =>
    h("text", { class: `tl-plot-text ${className}`, "text-anchor": anchor, ...at }, words);

  function move(place, offset) {
    const last = model.get("length") - 1;
    const asks = clamp(Math.round(place), 0, last);
    shared.change(model, { asks, answers: clamp(asks + Math.round(offset), 0, last) });
  }
  const offsetNow = () => model.get("answers") - model.get("asks");

  /** Arrow keys and their kin, as steps of a place or an offset. */
  function keyed(node, act, start) {
    node.addEventListener("keydown", (event) => {
      const steps = {
        ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, PageUp: -5, PageDown: 5,
        Home: -FARTHEST, End: FARTHEST,
      };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") start();
      else if (event.key in steps) act(steps[event.key]);
      else return;
      event.preventDefault();
    });
  }

  // ---------------------------------------------------- the map: one row per place

  const MAP = { height: 320, left: 44, right: 44, top: 26, bottom: 22 };
  let mapWidth = 280;
  const cells = Array.from({ length: LEVELS + 1 }, (_, level) => {
    const node = h("path", { class: "tl-place-cells" });
    shared.paint(node, shared.shade("signed", level / LEVELS));
    return node;
  });
  const mapTexts = h("g", {});
  const askRow = h("rect", { class: "tl-place-row tl-place-asks" });
  const answerRow = h("rect", { class: "tl-place-row tl-place-answers" });
  const map = h("svg", {
    class: "tl-places", height: MAP.height, tabindex: 0, role: "slider",
    "aria-label": "asking place", "aria-orientation": "vertical", "aria-valuemin": 0,
  }, ...cells, answerRow, askRow, mapTexts);
  shared.draggable(map, {
    move(event) {
      const box = map.getBoundingClientRect();
      const tall = (MAP.height - MAP.top - MAP.bottom) / model.get("length");
      move(Math.floor((event.clientY - box.top - MAP.top) / tall), offsetNow());
    },
  });
  keyed(map, (step) => move(model.get("asks") + step, offsetNow()),
    () => move(model.get("start").asks, offsetNow()));

  function drawMap(now, P) {
    const { width, length, asks, answers, scheme } = now;
    const wide = (mapWidth - MAP.left - MAP.right) / width;
    const tall = (MAP.height - MAP.top - MAP.bottom) / length;
    const most = scheme === "index" ? length - 1 : 1;
    const paths = cells.map(() => []);
    P.forEach((row, t) => row.forEach((value, c) => {
      const level = Math.round((0.5 + value / most / 2) * LEVELS);
      paths[level].push(`M${(MAP.left + c * wide).toFixed(1)} ${(MAP.top + t * tall).toFixed(1)}h${wide.toFixed(2)}v${tall.toFixed(2)}h${(-wide).toFixed(2)}z`);
    }));
    cells.forEach((node, level) => node.setAttribute("d", paths[level].join("") || "M0 0"));
    const row = (node, place) => attributes(node, {
      x: MAP.left - 1, width: wide * width + 2, y: MAP.top + place * tall - 1, height: tall + 2,
    });
    row(askRow, asks);
    row(answerRow, answers);
    const middle = (place) => MAP.top + (place + 0.5) * tall + 4.5;
    mapTexts.replaceChildren(
      text("tl-fill-attention", { x: MAP.left - 7, y: middle(asks) }, `${asks}`, "end"),
      text("tl-fill-rnn", { x: mapWidth - MAP.right + 7, y: middle(answers) }, `${answers}`),
      text("tl-fill-attention", { x: 4, y: 16 }, "asks"),
      text("tl-fill-rnn", { x: mapWidth - 4, y: 16 }, "answers", "end"),
      text("", { x: mapWidth / 2, y: MAP.height - 6 }, `${width} columns`, "middle"));
    attributes(map, {
      viewBox: `0 0 ${mapWidth} ${MAP.height}`, "aria-valuemax": length - 1,
      "aria-valuenow": asks, "aria-valuetext": `place ${asks} asks place ${answers}`,
    });
  }

  // --------------------------------------------- the plot: dot product against offset

  const PLOT = { height: 320, left: 14, right: 14, top: 44, bottom: 42 };
  let plotWidth = 380;
  const band = h("path", { class: "tl-offset-band" });
  const curve = h("path", { class: "tl-curve tl-curve-attention" });
  const zero = h("line", { class: "tl-offset-zero" });
  const cursor = h("line", { class: "tl-cursor", y1: PLOT.top - 8, y2: PLOT.height - PLOT.bottom });
  const dot = h("circle", { class: "tl-fill-attention", r: 5 });
  const plotTexts = h("g", {});
  const plot = h("svg", {
    class: "tl-plot tl-offsets", height: PLOT.height, tabindex: 0, role: "slider", "aria-label": "offset",
  }, zero, band, cursor, curve, dot, plotTexts);
  shared.draggable(plot, {
    move(event) {
      const box = plot.getBoundingClientRect();
      const reach = model.get("length") - 1;
      const share = (event.clientX - box.left - PLOT.left) / (plotWidth - PLOT.left - PLOT.right);
      move(model.get("asks"), (2 * share - 1) * reach);
    },
  });
  keyed(plot, (step) => move(model.get("asks"), offsetNow() + step),
    () => move(model.get("asks"), model.get("start").answers - model.get("start").asks));

  function drawPlot(now, found) {
    const { asks, answers, length, scheme } = now;
    const reach = length - 1;
    const all = [...found.spread.values()];
    const low = Math.min(0, ...all.map(([least]) => least));
    const high = Math.max(...all.map(([, most]) => most));
    const x = (offset) => PLOT.left + ((plotWidth - PLOT.left - PLOT.right) * (offset + reach)) / (2 * reach);
    const y = (value) => PLOT.top + ((PLOT.height - PLOT.top - PLOT.bottom) * (high - value)) / (high - low);
    const offsets = Array.from({ length: 2 * reach + 1 }, (_, n) => n - reach);
    const at = (offset, value) => `${x(offset).toFixed(1)},${y(value).toFixed(1)}`;
    const edge = (side) => offsets.map((offset) => at(offset, found.spread.get(offset)[side]));
    attributes(band, { d: `M${[...edge(0), ...edge(1).reverse()].join("L")}Z` });
    attributes(curve, { d: `M${found.products[asks].map((value, t) => at(t - asks, value)).join("L")}` });
    const offset = answers - asks;
    const value = found.products[asks][answers];
    attributes(dot, { cx: x(offset), cy: y(value) });
    attributes(cursor, { x1: x(offset), x2: x(offset) });
    attributes(zero, { x1: PLOT.left, x2: plotWidth - PLOT.right, y1: y(0), y2: y(0) });
    const side = offset < 0 ? -1 : 1; // away from the peak
    plotTexts.replaceChildren(
      text("", { x: 8, y: 16 }, `dot product, ${fixed(low, digits(scheme))} to ${fixed(high, digits(scheme))}`),
      text("tl-plot-label tl-fill-attention", { x: x(offset) + 9 * side, y: clamp(y(value) - 12, 34, PLOT.height - PLOT.bottom - 6) },
        fixed(value, digits(scheme)), side > 0 ? "start" : "end"),
      text("", { x: PLOT.left, y: PLOT.height - 22 }, `${MINUS}${reach}`),
      text("", { x: x(0), y: PLOT.height - 22 }, "0", "middle"),
      text("", { x: plotWidth - PLOT.right, y: PLOT.height - 22 }, `${reach}`, "end"),
      text("", { x: x(0), y: PLOT.height - 6 }, "offset: answering place minus asking place", "middle"));
    attributes(plot, {
      viewBox: `0 0 ${plotWidth} ${PLOT.height}`, "aria-valuemin": -asks,
      "aria-valuemax": reach - asks, "aria-valuenow": offset,
      "aria-valuetext": `${fixed(offset, 0)}: dot product ${fixed(value, digits(scheme))}`,
    });
  }

  // -------------------------------------------------------- the clocks: one per pair

  const RADIUS = 26;
  const clocks = Array.from({ length: CLOCKS }, () => {
    const key = h("line", { class: "tl-hand tl-hand-answers", x1: 0, y1: 0 });
    const query = h("line", { class: "tl-hand tl-hand-asks", x1: 0, y1: 0 });
    const node = h("svg", { class: "tl-clock", viewBox: "-32 -32 64 64", "aria-hidden": "true" },
      h("circle", { class: "tl-clock-face", r: 30 }), key, query);
    const name = h("span", {});
    return { key, query, name, whole: h("div", { class: "tl-clock-whole" }, node, name) };
  });
  const clockWords = h("div", { class: "tl-muted" });
  const row = h("div", { class: "tl-clocks" }, ...clocks.map((clock) => clock.whole));

  function drawClocks(now, P) {
    const shown = turns(now.scheme) ? Math.min(now.width / 2, CLOCKS) : 0;
    clocks.forEach(({ key, query, name, whole }, pair) => {
      whole.hidden = pair >= shown;
      if (whole.hidden) return;
      for (const [hand, place] of [[query, now.asks], [key, now.answers]]) {
        const [one, two] = P[place].slice(2 * pair, 2 * pair + 2);
        attributes(hand, { x2: (RADIUS * one).toFixed(2), y2: (-RADIUS * two).toFixed(2) });
      }
      name.textContent = short(rate(now, pair));
    });
    clockWords.textContent = shown
      ? `${shown < now.width / 2 ? `The first ${shown} of ${now.width / 2} pairs` : "The pairs"} of columns, and the radians that each turns per place.`
      : "A number has no pairs that turn. Choose sinusoids or RoPE.";
  }

  // ---------------------------------------------------------------- the controls

  const choice = h("select", { onchange: () => shared.change(model, { scheme: choice.value }) },
    ...SCHEMES.map((name) => h("option", { value: name }, name)));
  const scheme = h("div", { class: "tl-control" }, h("label", {}, h("span", {}, "scheme"), choice));
  const base = shared.slider(model, {
    label: "base", min: 1, max: 5, step: 0.1,
    read: () => Math.log10(model.get("base")),
    write: (x) => ({ base: Number((10 ** x).toPrecision(2)) }),
    text: () => `${model.get("base")}`,
  });
  const width = shared.slider(model, {
    label: ["width ", i("d")], min: 2, max: WIDEST, step: 2,
    read: () => model.get("width"),
    write: (d) => ({ width: d }),
    text: () => `${model.get("width")}`,
  });
  const length = shared.slider(model, {
    label: ["length ", i("n")], min: 4, max: FARTHEST, step: 1,
    read: () => model.get("length"),
    write: (n) => ({ length: n, asks: Math.min(model.get("asks"), n - 1),
      answers: Math.min(model.get("answers"), n - 1) }),
    text: () => `${model.get("length")}`,
  });
  const baseInput = base.node.querySelector("input");

  const told = shared.card(el, model, {
    name: "positions",
    question: "How far apart are two places?",
    instruction: "Choose the asking place in the map, and the offset in the curve.",
    parts: [
      h("div", { class: "tl-positions" }, map, plot),
      row, clockWords,
      h("div", { class: "tl-controls" }, scheme, base.node, width.node, length.node),
    ],
    note: "With RoPE, query and key are (1, 0) in every pair of columns before they are turned.",
  });

  // ------------------------------------------------------------- the arithmetic

  function story(now, found) {
    const { scheme, width, asks, answers } = now;
    const offset = answers - asks;
    const apart = Math.abs(offset);
    const value = found.products[asks][answers];
    const [least, most] = found.spread.get(offset);
    const where = offset ? `${apart} ${offset < 0 ? "to its left" : "to its right"}:` : "itself:";
    const number = (x) => fixed(x, digits(scheme));
    const letters = scheme === "RoPE" ? ["q", "k"] : ["p", "p"];
    const left = [mark("query", letters[0], sub(`${asks}`)), "·", mark("key", letters[1], sub(`${answers}`)), " = "];
    const terms = [];
    if (turns(scheme)) {
      const count = Math.min(3, width / 2);
      for (let pair = 0; pair < count; pair += 1)
        terms.push([`cos(${apart}·${short(rate(now, pair))})`]);
      if (width / 2 > count) terms.push(["…"]);
    } else {
      const one = (place) => (scheme === "index" ? `${place}` : fixed(place / now.length, 2));
      terms.push([`${width}·`, mark("query", one(asks)), "·", mark("key", one(answers))]);
    }
    const alone = most - least < 1e-9 * Math.max(1, most);
    return [
      line("Place ", mark("query", strong(`${asks}`)), " asks place ", mark("key", strong(`${answers}`)), `, ${where}`),
      line(...left, ...joined(terms, " + "), " = ", strong(number(value))),
      line(`All pairs at offset ${fixed(offset, 0)}: `, strong(number(least)), " to ", strong(number(most)), "."),
      line(mark("muted", alone
        ? "The offset decides. Where the two stand does not matter."
        : "Where the two stand matters, so the offset cannot be read off.")),
    ];
  }

  // ---------------------------------------------------------------------- drawing

  function draw() {
    const now = state();
    const P = vectors(now);
    const found = compare(P);
    drawMap(now, P);
    drawPlot(now, found);
    drawClocks(now, P);
    choice.value = now.scheme;
    baseInput.disabled = !turns(now.scheme);
    base.draw();
    width.draw();
    length.draw();
    told.replaceChildren(...story(now, found));
  }

  const stops = [
    shared.watch(model, draw),
    shared.onWidth(map, (measured) => { mapWidth = measured; draw(); }),
    shared.onWidth(plot, (measured) => { plotWidth = measured; draw(); }),
  ];
  return () => stops.forEach((stop) => stop());
}

export default { render };
