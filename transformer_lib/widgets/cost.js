/* Cost: operations, memory and time of a stack of layers, recurrent beside attention. */

const DEVICES = {
  "one processor core": { flopsPerSecond: 1.5e11, bytesPerSecond: 1.2e10, memory: 2.4e10, pause: 1e-5, bytesEach: 4 },
  "A100 (80 GB)": { flopsPerSecond: 3.12e14, bytesPerSecond: 2.039e12, memory: 8e10, pause: 5e-6, bytesEach: 2 },
  "H200 (141 GB)": { flopsPerSecond: 9.89e14, bytesPerSecond: 4.8e12, memory: 1.41e11, pause: 5e-6, bytesEach: 2 },
};
const [SHORTEST, LONGEST] = [4, 17]; // texts, in powers of two

/** What each kind of model costs on one text; the keys are those of the drawing. */
function bills({ n, d_model: d, num_heads: h, num_layers: layers, device }) {
  const { flopsPerSecond, bytesPerSecond, pause, bytesEach: b } = DEVICES[device];
  const scores = h * n * n * b;
  const bill = (flops, parameters, perToken, weights, again, steps) => {
    const kept = perToken * n * d * b + weights;
    const moved = (parameters * d * d + n * d) * b + kept + again;
    const slower = Math.max((layers * flops) / flopsPerSecond, (layers * moved) / bytesPerSecond);
    return {
      flops: layers * flops, kept: layers * kept, moved: layers * moved, steps: layers * steps,
      seconds: slower + layers * steps * pause,
    };
  };
  const attention = 8 * n * d * d + 4 * n * n * d;
  return {
    rnn: bill(4 * n * d * d, 2, 1, 0, 0, n),
    lstm: bill(16 * n * d * d, 8, 6, 0, 0, n),
    plain: bill(attention, 4, 4, scores, 3 * scores, 5),
    fused: bill(attention, 4, 4, 0, 0, 3),
  };
}

/** A number with the unit that fits. */
function withUnit(value, step, units) {
  let place = 0;
  while (value >= step && place < units.length - 1) [value, place] = [value / step, place + 1];
  return `${shared.fixed(value, value < 10 ? 1 : 0)} ${units[place]}`;
}
const inBytes = (value) => withUnit(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const inTime = (seconds) => withUnit(1e6 * seconds, 1000, ["µs", "ms", "s", "ks"]);

function render({ model, el }) {
  const { h, mark, strong, line, short, attributes, clamp } = shared;
  const KEYS = ["n", "d_model", "num_heads", "num_layers", "device"];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const MODELS = [["rnn", "RNN"], ["lstm", "LSTM"], ["plain", "plain"], ["fused", "fused"]];
  const FULL = { rnn: "RNN", lstm: "LSTM", plain: "plain attention", fused: "fused attention" };
  const thousands = (x) => String(x).replace(/\B(?=(\d{3})+$)/g, ",");
  const i = (letter) => h("i", {}, letter);

  // -------------------------------------------------------------------- the plot

  const HEIGHT = 320;
  const [LEFT, RIGHT, ABOVE, BELOW] = [52, 16, 30, 48];
  let width = 640;
  let [bottom, top] = [-6, 0]; // powers of ten of a second
  const x = (power) => LEFT + ((width - LEFT - RIGHT) * (power - SHORTEST)) / (LONGEST - SHORTEST);
  const y = (seconds) =>
    ABOVE + ((HEIGHT - ABOVE - BELOW) * (top - Math.log10(seconds))) / (top - bottom);
  const grid = h("g", { class: "tl-plot-grid" });
  const cursor = h("line", { class: "tl-cursor", y1: ABOVE, y2: HEIGHT - BELOW + 5 });
  const made = (tag, extra) => Object.fromEntries(MODELS.map(([key]) => [key, h(tag, extra(key))]));
  const curves = made("path", (key) => ({ class: `tl-curve tl-curve-${key}` }));
  const dots = made("circle", (key) => ({ class: `tl-plot-dot tl-fill-${key}`, r: 5 }));
  const labels = made("text", (key) => ({ class: `tl-plot-label tl-fill-${key}` }));
  const grip = h("rect", { class: "tl-grip", width: 68, height: 20, rx: 6, y: HEIGHT - BELOW + 4 });
  const gripText = h("text", { class: "tl-grip-text", y: HEIGHT - BELOW + 19 });
  const plot = h("svg", {
    class: "tl-plot tl-cost-plot", height: HEIGHT, tabindex: 0, role: "slider",
    "aria-label": "tokens", "aria-valuemin": 2 ** SHORTEST, "aria-valuemax": 2 ** LONGEST,
  }, grid, cursor, ...Object.values(curves), ...Object.values(dots), ...Object.values(labels), grip, gripText);

  const moveTo = (power) =>
    shared.change(model, { n: 2 ** clamp(Math.round(power), SHORTEST, LONGEST) });
  shared.draggable(plot, {
    move(event) {
      const box = plot.getBoundingClientRect();
      moveTo(SHORTEST + ((LONGEST - SHORTEST) * (event.clientX - box.left - LEFT)) / (width - LEFT - RIGHT));
    },
  });
  plot.addEventListener("keydown", (event) => {
    const power = Math.log2(model.get("n"));
    const moves = {
      ArrowLeft: power - 1, ArrowDown: power - 1, ArrowRight: power + 1, ArrowUp: power + 1,
      PageDown: power - 3, PageUp: power + 3, Home: SHORTEST, End: LONGEST,
      Escape: Math.log2(model.get("start").n),
    };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moveTo(moves[event.key]);
  });

  function drawGrid(now) {
    const text = (at, words, anchor) => h("text", { class: "tl-plot-text", "text-anchor": anchor, ...at }, words);
    const lines = [];
    for (let power = bottom; power <= top; power += 1) {
      const at = y(10 ** power);
      lines.push(h("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      if (top - bottom < 7 || power % 2 === 0)
        lines.push(text({ x: LEFT - 8, y: at + 4 }, inTime(10 ** power).replace(".0", ""), "end"));
    }
    for (let power = SHORTEST; power <= LONGEST; power += width < 480 ? 4 : 2) {
      if (Math.abs(x(power) - x(Math.log2(now.n))) < 62) continue; // under the grip
      lines.push(text({ x: x(power), y: HEIGHT - BELOW + 19 }, thousands(2 ** power), "middle"));
    }
    lines.push(text({ x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6 }, "tokens", "middle"));
    lines.push(text({ x: 10, y: 18 }, "time forward, at least", "start"));
    grid.replaceChildren(...lines);
  }

  function drawPlot(now, here) {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const powers = Array.from({ length: LONGEST - SHORTEST + 1 }, (_, k) => SHORTEST + k);
    const all = powers.map((power) => bills({ ...now, n: 2 ** power }));
    const times = all.flatMap((one) => Object.values(one).map((bill) => Math.log10(bill.seconds)));
    [bottom, top] = [Math.floor(Math.min(...times)), Math.ceil(Math.max(...times))];
    drawGrid(now);
    const at = Math.log2(now.n);
    for (const [key] of MODELS) {
      const points = powers.map((power, k) => `${x(power).toFixed(1)},${y(all[k][key].seconds).toFixed(1)}`);
      attributes(curves[key], { d: `M${points.join("L")}` });
      attributes(dots[key], { cx: x(at), cy: y(here[key].seconds) });
    }
    attributes(cursor, { x1: x(at), x2: x(at) });
    const held = clamp(x(at), 34, width - 34);
    attributes(grip, { x: held - 34 });
    attributes(gripText, { x: held });
    gripText.textContent = thousands(now.n);
    // Names beside the dots, on the side with more room, pushed apart.
    const left = x(at) > width / 2;
    const places = MODELS.map(([key]) => ({ key, y: y(here[key].seconds) })).sort((a, b) => a.y - b.y);
    for (let round = 0; round < 40; round += 1)
      for (let k = 1; k < places.length; k += 1) {
        const overlap = 17 - (places[k].y - places[k - 1].y);
        if (overlap > 0) { places[k].y += overlap / 2; places[k - 1].y -= overlap / 2; }
      }
    for (const { key, y: height } of places) {
      const name = MODELS.find(([one]) => one === key)[1];
      labels[key].textContent = `${name} ${inTime(here[key].seconds)}`;
      attributes(labels[key], {
        x: x(at) + (left ? -10 : 10), y: clamp(height, ABOVE + 4, HEIGHT - BELOW - 6) + 5,
        "text-anchor": left ? "end" : "start",
      });
    }
    attributes(plot, {
      "aria-valuenow": now.n,
      "aria-valuetext": `${thousands(now.n)} tokens: ${MODELS.map(([key]) => `${FULL[key]} ${inTime(here[key].seconds)}`).join(", ")}`,
    });
  }

  // ---------------------------------------------------------------- the controls

  const power = (label, key, min, max) => shared.slider(model, {
    label, min, max, step: 1,
    read: () => Math.log2(model.get(key)),
    write: (position) => ({ [key]: 2 ** Math.round(position) }),
    text: () => thousands(model.get(key)),
  });
  const wide = power(["width ", i("d")], "d_model", 6, 13);
  const heads = power(["heads ", i("h")], "num_heads", 0, 6);
  const layers = shared.slider(model, {
    label: "layers", min: 1, max: 96, step: 1,
    read: () => model.get("num_layers"),
    write: (number) => ({ num_layers: number }),
    text: () => `${model.get("num_layers")}`,
  });
  const choice = h("select", { onchange: () => shared.change(model, { device: choice.value }) },
    ...Object.keys(DEVICES).map((name) => h("option", { value: name }, name)));
  const device = h("div", { class: "tl-control" }, h("label", {}, h("span", {}, "device"), choice));

  const body = h("tbody", {});
  const bill = h("div", { class: "tl-cost" }, h("table", {},
    h("thead", {}, h("tr", {}, ...["model", "operations", "kept", "at least"].map((name) =>
      h("th", { scope: "col" }, name)))), body));

  const told = shared.card(el, model, {
    name: "cost",
    question: "What does a longer text cost?",
    instruction: "Drag in the picture, or move the tokens with the arrow keys.",
    parts: [plot, h("div", { class: "tl-controls" }, wide.node, heads.node, layers.node, device), bill],
    note: "Forward pass of one text, without the feed-forward networks. Kept: for the backward pass. The times are bounds: the slower of arithmetic and transport, and a pause for every step that waits.",
  });

  // ---------------------------------------------------------------------- drawing

  function story(now, here) {
    const { n, d_model: d, num_heads, num_layers } = now;
    const { flopsPerSecond, bytesPerSecond, memory, bytesEach } = DEVICES[now.device];
    const core = 4 * n * n * d;
    const slower = (one) => (one.flops / flopsPerSecond >= one.moved / bytesPerSecond ? "arithmetic" : "transport");
    const room = here.plain.kept <= memory ? "fits into" : "does not fit into";
    return [
      line("Attention, one layer: 8", i("nd"), "² + 4", i("n"), "²", i("d"), " = ", short(8 * n * d * d), " + ", strong(short(core)), " operations.",
        mark("muted", ` Equal at n = 2d = ${thousands(2 * d)}.`)),
      line("Its weights, one layer: ", `${num_heads}·${thousands(n)}²·${bytesEach} bytes = `, strong(inBytes(num_heads * n * n * bytesEach)), "."),
      line(`In ${num_layers} ${num_layers === 1 ? "layer" : "layers"} plain attention keeps `, strong(inBytes(here.plain.kept)), `, which ${room} ${inBytes(memory)}. Fused: `, strong(inBytes(here.fused.kept)), "."),
      line("Steps in a row: RNN ", strong(thousands(here.rnn.steps)), ", plain attention ", strong(thousands(here.plain.steps)), "."),
      line(`What sets the pace: plain ${slower(here.plain)}, fused ${slower(here.fused)}.`),
    ];
  }

  function draw() {
    const now = state();
    const here = bills(now);
    drawPlot(now, here);
    wide.draw();
    heads.draw();
    layers.draw();
    choice.value = now.device;
    body.replaceChildren(...MODELS.map(([key]) => h("tr", {},
      h("th", { scope: "row" }, MODELS.find(([one]) => one === key)[1]),
      h("td", {}, short(here[key].flops)), h("td", {}, inBytes(here[key].kept)), h("td", {}, inTime(here[key].seconds)))));
    told.replaceChildren(...story(now, here));
  }

  const stops = [
    shared.watch(model, draw),
    shared.onWidth(plot, (measured) => { width = measured; draw(); }),
  ];
  return () => stops.forEach((stop) => stop());
}

export default { render };
