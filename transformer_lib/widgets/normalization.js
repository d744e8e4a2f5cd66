/* Depth: size of the stream and of the gradient along a fresh stack. Recorded runs. */

const [BOTTOM, TOP] = [-12, 12]; // of the axis, in powers of ten

const FORMULAS = {
  plain: "F(x)", norm: "N(F(x))", skip: "x + F(x)",
  "post-norm": "N(x + F(x))", "pre-norm": "x + F(N(x))",
};

/** The recorded numbers of one stack. */
const runOf = ({ runs, arrangement, start_of_weights, layers }) =>
  runs.runs[`${arrangement}, ${start_of_weights}, ${layers}`];

function render({ model, el }) {
  const { h, strong, mark, line, short, attributes, clamp } = shared;
  const KEYS = ["layers", "arrangement", "start_of_weights", "layer", "runs"];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const { layers: depths, arrangements, starts } = model.get("runs");
  const layerNow = () => Math.min(model.get("layer"), model.get("layers"));
  const CURVES = [["sizes", "stream"], ["gradients", "gradient"]];

  // -------------------------------------------------------------------- the plot

  const HEIGHT = 300;
  const [LEFT, RIGHT, ABOVE, BELOW] = [50, 16, 26, 48];
  let width = 640;
  const x = (layer) => LEFT + ((width - LEFT - RIGHT) * layer) / model.get("layers");
  const y = (number) => {
    const power = clamp(Math.log10(number), BOTTOM, TOP);
    return ABOVE + ((HEIGHT - ABOVE - BELOW) * (TOP - power)) / (TOP - BOTTOM);
  };

  const grid = h("g", { class: "tl-plot-grid" });
  const cursor = h("line", { class: "tl-cursor", y1: ABOVE, y2: HEIGHT - BELOW + 5 });
  const parts = Object.fromEntries(CURVES.map(([key]) => [key, {
    path: h("path", { class: `tl-curve tl-curve-${key}` }),
    dot: h("circle", { class: `tl-plot-dot tl-fill-${key}`, r: 5 }),
    label: h("text", { class: `tl-plot-label tl-fill-${key}` }),
  }]));
  const of = (name) => Object.values(parts).map((part) => part[name]);
  const grip = h("rect", { class: "tl-grip", width: 32, height: 20, rx: 6, y: HEIGHT - BELOW + 4 });
  const gripText = h("text", { class: "tl-grip-text", y: HEIGHT - BELOW + 19 });
  const plot = h("svg", {
    class: "tl-plot", style: `height:${HEIGHT}px`, tabindex: 0, role: "slider",
    "aria-label": "layer", "aria-valuemin": 1,
  }, grid, cursor, ...of("path"), ...of("dot"), ...of("label"), grip, gripText);

  const moveTo = (layer) =>
    shared.change(model, { layer: clamp(Math.round(layer), 1, model.get("layers")) });
  shared.draggable(plot, {
    move(event) {
      const box = plot.getBoundingClientRect();
      moveTo((model.get("layers") * (event.clientX - box.left - LEFT)) / (width - LEFT - RIGHT));
    },
  });
  plot.addEventListener("keydown", (event) => {
    const at = layerNow();
    const moves = {
      ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1,
      PageDown: at - 6, PageUp: at + 6, Home: 1, End: model.get("layers"),
      Escape: model.get("start").layer,
    };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moveTo(moves[event.key]);
  });

  function drawGrid(layers) {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const text = (at, words, more = {}) => h("text", { class: "tl-plot-text", ...at, ...more }, words);
    const lines = [];
    for (let power = BOTTOM; power <= TOP; power += 3) {
      const at = y(10 ** power);
      lines.push(h("line", { class: power ? "" : "tl-one", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      lines.push(text({ x: LEFT - 8, y: at + 4 }, power ? `10${shared.superscript(power)}` : "1", { "text-anchor": "end" }));
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const layer = share * layers;
      if (Number.isInteger(layer))
        lines.push(text({ x: x(layer), y: HEIGHT - BELOW + 19 }, `${layer}`, { "text-anchor": "middle", class: "tl-plot-text tl-plot-tick" }));
    }
    lines.push(text({ x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6 }, "after layer", { "text-anchor": "middle" }));
    grid.replaceChildren(...lines);
  }

  // ---------------------------------------------------------------- the controls

  const depth = shared.slider(model, {
    label: "layers", min: 0, max: depths.length - 1, step: 1,
    read: () => depths.indexOf(model.get("layers")),
    write: (i) => ({ layers: depths[i], layer: Math.min(model.get("layer"), depths[i]) }),
    text: () => `${model.get("layers")}`,
  });

  function radios(key, title, options, words) {
    const group = `tl-${key}-${Math.random().toString(36).slice(2)}`;
    const inputs = options.map((option) =>
      h("input", { type: "radio", name: group, value: option,
        onchange: () => shared.change(model, { [key]: option }) }));
    const node = h("fieldset", { class: "tl-control tl-radios" },
      h("legend", {}, title),
      ...options.map((option, i) => h("label", {}, inputs[i], h("span", {}, words(option)))));
    return {
      node,
      draw: () => inputs.forEach((input, i) => { input.checked = options[i] === model.get(key); }),
    };
  }

  const around = radios("arrangement", "around each sub-layer F", arrangements,
    (name) => [h("span", {}, name), " ", h("span", { class: "tl-formula" }, FORMULAS[name])]);
  const begin = radios("start_of_weights", "the matrices start", starts,
    (name) => ({ Xavier: "Xavier", default: "PyTorch's default", "0.02": "spread 0.02" })[name]);

  const told = shared.card(el, model, {
    name: "normalization",
    question: "What does depth do to signal and gradient?",
    instruction: "Change the stack. Drag in the picture, or choose a layer with the arrow keys.",
    parts: [plot, h("div", { class: "tl-controls tl-depth" }, around.node, begin.node, depth.node)],
    note: "Recorded runs, not computed here: stacks before any training, width 32, four heads, "
      + `one batch of 64 rows of six letters; each number is the median of ${model.get("runs").seeds.length} starts.`,
  });

  // --------------------------------------------------------------- what is told

  function story(now, run) {
    const at = layerNow();
    const [first, last] = [run.gradients[0], run.gradients.at(-1)];
    return [
      line(strong(`layer ${at} of ${now.layers}`), `, ${now.arrangement}: `, FORMULAS[now.arrangement]),
      line(h("span", { class: "tl-model tl-text-sizes" }, "stream"), short(run.sizes[at - 1]), " goes in, ",
        strong(short(run.sizes[at])), " comes out", mark("muted", "  (root mean square)")),
      line(h("span", { class: "tl-model tl-text-gradients" }, "gradient"), "of its weights ",
        strong(short(run.gradients[at - 1])), mark("muted", "  (norm)")),
      line("the first layer gets ", strong(short(first / last)), " times the gradient of the last"),
    ];
  }

  // ---------------------------------------------------------------------- drawing

  let drawn = null; // depth and width that the grid was drawn for

  function draw() {
    const now = state();
    const run = runOf(now);
    const at = layerNow();
    if (drawn !== `${now.layers} ${width}`) drawGrid(now.layers);
    drawn = `${now.layers} ${width}`;
    const heights = {};
    for (const [key, name] of CURVES) {
      const from = key === "sizes" ? 0 : 1; // a gradient belongs to a layer
      const points = run[key].map((number, i) => `${x(i + from).toFixed(1)},${y(number).toFixed(1)}`);
      const number = run[key][at - from];
      heights[key] = y(number);
      attributes(parts[key].path, { d: `M${points.join("L")}` });
      attributes(parts[key].dot, { cx: x(at), cy: y(number) });
      const beyond = number < 10 ** BOTTOM ? " ↓" : number > 10 ** TOP ? " ↑" : "";
      parts[key].label.textContent = `${name} ${short(number)}${beyond}`;
    }
    const right = x(at) < width / 2;
    const up = heights.sizes <= heights.gradients ? "sizes" : "gradients"; // the upper of the two
    for (const [key] of CURVES) {
      const lift = key === up ? -10 : 22;
      attributes(parts[key].label, {
        x: x(at) + (right ? 9 : -9), "text-anchor": right ? "start" : "end",
        y: clamp(heights[key] + lift, ABOVE + (key === up ? 4 : 24), HEIGHT - BELOW - (key === up ? 24 : 4)),
      });
    }
    attributes(cursor, { x1: x(at), x2: x(at) });
    attributes(grip, { x: x(at) - 16 });
    attributes(gripText, { x: x(at) });
    gripText.textContent = `${at}`;
    for (const tick of grid.querySelectorAll(".tl-plot-tick")) // the grip covers a tick near it
      attributes(tick, { visibility: Math.abs(tick.getAttribute("x") - x(at)) < 28 ? "hidden" : "visible" });
    attributes(plot, {
      "aria-valuemax": now.layers, "aria-valuenow": at,
      "aria-valuetext": `layer ${at} of ${now.layers}: stream ${short(run.sizes[at])}, gradient ${short(run.gradients[at - 1])}`,
    });
    for (const control of [depth, around, begin]) control.draw();
    told.replaceChildren(...story(now, run));
  }

  const stopWatching = shared.watch(model, draw);
  const stopMeasuring = shared.onWidth(plot, (measured) => {
    width = measured;
    draw();
  });
  return () => {
    stopWatching();
    stopMeasuring();
  };
}

export default { render };
