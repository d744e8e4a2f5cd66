/* Reach: how much of a gradient arrives from far away, in three kinds of model. */

const FARTHEST = 100; // of the axis, in steps
const [BOTTOM, TOP] = [-6, 3]; // of the axis, in powers of ten

/** What is left of the gradient after `distance` steps, in each model. */
const reaches = ({ recurrent, forget_bias, length }, distance) => ({
  rnn: recurrent ** distance,
  lstm: shared.sigmoid(forget_bias) ** distance,
  attention: 1 / length,
});

/** Steps after which factor ** steps has halved, or doubled if the factor is above 1. */
const halfDistance = (factor) =>
  factor === 1 ? Infinity : Math.LN2 / Math.abs(Math.log(factor));

function render({ model, el }) {
  const { h, mark, strong, sup, line, fixed, short, attributes, clamp } = shared;
  const state = () => Object.fromEntries(
    ["recurrent", "forget_bias", "length"].map((key) => [key, model.get(key)]));
  const distanceNow = () => Math.min(model.get("distance"), model.get("length") - 1);
  const MODELS = [["rnn", "RNN"], ["lstm", "LSTM"], ["attention", "attention"]];

  // -------------------------------------------------------------------- the plot

  const HEIGHT = 340;
  const TALL = 18; // a label
  const [LEFT, RIGHT, ABOVE, BELOW] = [46, 16, 30, 48];
  let width = 640;
  const x = (t) => LEFT + ((width - LEFT - RIGHT) * t) / FARTHEST;
  const y = (reach) => {
    const power = clamp(Math.log10(reach), BOTTOM, TOP);
    return ABOVE + ((HEIGHT - ABOVE - BELOW) * (TOP - power)) / (TOP - BOTTOM);
  };

  const grid = h("g", { class: "tl-plot-grid" });
  const beyond = h("rect", { class: "tl-beyond", y: ABOVE, height: HEIGHT - ABOVE - BELOW });
  const beyondText = h("text", { class: "tl-plot-text", y: 18 });
  const cursor = h("line", { class: "tl-cursor", y1: ABOVE, y2: HEIGHT - BELOW + 5 });
  const curves = Object.fromEntries(MODELS.map(([key]) =>
    [key, h("path", { class: `tl-curve tl-curve-${key}` })]));
  const dots = Object.fromEntries(MODELS.map(([key]) =>
    [key, h("circle", { class: `tl-plot-dot tl-fill-${key}`, r: 5 })]));
  const labels = Object.fromEntries(MODELS.map(([key]) =>
    [key, h("text", { class: `tl-plot-label tl-fill-${key}` })]));
  const grip = h("rect", { class: "tl-grip", width: 32, height: 20, rx: 6, y: HEIGHT - BELOW + 4 });
  const gripText = h("text", { class: "tl-grip-text", y: HEIGHT - BELOW + 19 });
  const plot = h("svg", {
    class: "tl-plot", height: HEIGHT, tabindex: 0, role: "slider", "aria-label": "distance",
    "aria-valuemin": 0,
  }, beyond, grid, beyondText, cursor, ...Object.values(curves), ...Object.values(dots),
  ...Object.values(labels), grip, gripText);

  const moveTo = (t) =>
    shared.change(model, { distance: clamp(Math.round(t), 0, model.get("length") - 1) });
  const toPointer = (event) => {
    const box = plot.getBoundingClientRect();
    moveTo((FARTHEST * (event.clientX - box.left - LEFT)) / (width - LEFT - RIGHT));
  };
  shared.draggable(plot, { move: toPointer });
  plot.addEventListener("keydown", (event) => {
    const t = distanceNow();
    const moves = {
      ArrowLeft: t - 1, ArrowDown: t - 1, ArrowRight: t + 1, ArrowUp: t + 1,
      PageDown: t - 10, PageUp: t + 10, Home: 0, End: FARTHEST,
      Escape: model.get("start").distance,
    };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    moveTo(moves[event.key]);
  });

  function drawGrid() {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const text = (className, at, words, more = {}) =>
      h("text", { class: `tl-plot-text ${className}`, ...at, ...more }, words);
    const lines = [];
    for (let power = BOTTOM; power <= TOP; power += 1) {
      const at = y(10 ** power);
      lines.push(h("line", { class: power ? "" : "tl-one", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      if (power % 2 === 0)
        lines.push(text("", { x: LEFT - 8, y: at + 4 }, power ? `10${shared.superscript(power)}` : "1", { "text-anchor": "end" }));
    }
    for (let t = 0; t <= FARTHEST; t += 20)
      lines.push(text("tl-plot-tick", { x: x(t), y: HEIGHT - BELOW + 19 }, `${t}`, { "text-anchor": "middle" }));
    lines.push(text("", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6 }, "distance, in steps back", { "text-anchor": "middle" }));
    lines.push(text("", { x: 10, y: 18 }, "gradient that arrives"));
    grid.replaceChildren(...lines);
  }

  /** Put each label near its dot, where it covers no curve and no other label. */
  function placeLabels(t, now, left) {
    const taken = [];
    for (const key of ["attention", "lstm", "rnn"]) {
      const wide = 7.6 * labels[key].textContent.length + 6;
      const options = [];
      for (const side of [1, -1]) {
        for (const lift of [-13, 13, -31, 31, -49, 49]) {
          const box = {
            left: side > 0 ? x(t) + 9 : x(t) - 9 - wide,
            top: clamp(y(left[key]) + lift, ABOVE + TALL / 2, HEIGHT - BELOW - TALL / 2) - TALL / 2,
          };
          options.push({ box, side, cost: cost(box, wide, now, taken) + Math.abs(lift) / 100 + (side < 0 ? 0.05 : 0) });
        }
      }
      const { box, side } = options.reduce((best, one) => (one.cost < best.cost ? one : best));
      taken.push({ ...box, wide });
      attributes(labels[key], {
        x: side > 0 ? box.left : box.left + wide, y: box.top + TALL / 2 + 5,
        "text-anchor": side > 0 ? "start" : "end",
      });
    }
  }

  /** How bad a place is: outside the picture, over a label, over a curve. */
  function cost(box, wide, now, taken) {
    const right = box.left + wide;
    let bad = box.left < LEFT || right > width - RIGHT ? 50 : 0;
    for (const other of taken)
      if (box.left < other.left + other.wide && other.left < right && Math.abs(box.top - other.top) < TALL) bad += 20;
    for (let at = box.left; at <= right; at += wide / 6) {
      const s = (FARTHEST * (at - LEFT)) / (width - LEFT - RIGHT);
      if (s < 0 || s > now.length - 1) continue;
      for (const reach of Object.values(reaches(now, s)))
        if (Math.abs(y(reach) - box.top - TALL / 2) < TALL / 2) bad += 1;
    }
    return bad;
  }

  // ---------------------------------------------------------------- the controls

  const recurrent = shared.slider(model, {
    label: ["RNN factor ", h("i", {}, "w")], min: 0.5, max: 1.2, step: 0.01,
    read: () => model.get("recurrent"),
    write: (w) => ({ recurrent: w }),
    text: () => fixed(model.get("recurrent"), 2),
  });
  const forget = shared.slider(model, {
    label: ["LSTM forget bias ", h("i", {}, "b")], min: -2, max: 6, step: 0.1,
    read: () => model.get("forget_bias"),
    write: (b) => ({ forget_bias: b }),
    text: () => fixed(model.get("forget_bias"), 1),
  });
  const length = shared.slider(model, {
    label: ["length ", h("i", {}, "n")], min: 5, max: FARTHEST, step: 1,
    read: () => model.get("length"),
    write: (n) => ({ length: n }),
    text: () => `${model.get("length")}`,
  });

  const told = shared.card(el, model, {
    name: "recurrence",
    question: "How far back does a gradient reach?",
    instruction: "Drag in the picture, or move the distance with the arrow keys.",
    parts: [plot, h("div", { class: "tl-controls" }, recurrent.node, forget.node, length.node)],
    note: "The smallest models there are: one number as the state, slopes and gates fixed, attention spread evenly.",
  });

  // --------------------------------------------------------------- the arithmetic

  function perStep(factor) {
    const steps = halfDistance(factor);
    if (steps === Infinity) return "never changes";
    return `${factor < 1 ? "halves" : "doubles"} every ${fixed(steps, 1)} steps`;
  }

  function story(t, now, left) {
    const gate = shared.sigmoid(now.forget_bias);
    const t_ = sup(h("i", {}, "t"));
    const i = (letter) => h("i", {}, letter);
    const power = (factor, digits) => [fixed(factor, digits), sup(`${t}`)];
    const row = (key, name, formula, numbers, words) => line(
      h("span", { class: `tl-model tl-text-${key}` }, name), ...formula, " = ", ...numbers, " = ",
      strong(short(left[key])), mark("muted", `  ${words}`));
    return [
      line(strong(`${t} ${t === 1 ? "step" : "steps"} back:`)),
      row("rnn", "RNN", [i("w"), t_], power(now.recurrent, 2), perStep(now.recurrent)),
      row("lstm", "LSTM", ["σ(", i("b"), ")", t_.cloneNode(true)], power(gate, 3), perStep(gate)),
      row("attention", "attention", ["1/", i("n")], [`1/${now.length}`], "the same at every distance"),
    ];
  }

  // ---------------------------------------------------------------------- drawing

  function draw() {
    const now = state();
    const t = distanceNow();
    const left = reaches(now, t);
    const last = now.length - 1;
    for (const [key, name] of MODELS) {
      const points = [];
      for (let s = 0; s <= last; s += 1) {
        const reach = reaches(now, s)[key];
        const power = Math.log10(reach);
        points.push(`${x(s).toFixed(1)},${y(reach).toFixed(1)}`);
        if (power < BOTTOM || power > TOP) break;
      }
      attributes(curves[key], { d: `M${points.join("L")}` });
      const outside = left[key] < 10 ** BOTTOM || left[key] > 10 ** TOP;
      attributes(dots[key], { cx: x(t), cy: y(left[key]), opacity: outside ? 0 : 1 });
      labels[key].textContent = `${name} ${short(left[key])}${left[key] < 10 ** BOTTOM ? " ↓" : left[key] > 10 ** TOP ? " ↑" : ""}`;
    }
    placeLabels(t, now, left);
    attributes(beyond, { x: x(last), width: x(FARTHEST) - x(last) });
    const fits = x(last) > 240; // beside the axis' name
    attributes(beyondText, { x: fits ? x(last) : 170, "text-anchor": fits ? "end" : "start" });
    beyondText.textContent = `${now.length} tokens`;
    attributes(cursor, { x1: x(t), x2: x(t) });
    attributes(grip, { x: x(t) - 16 });
    attributes(gripText, { x: x(t) });
    gripText.textContent = `${t}`;
    for (const tick of grid.querySelectorAll(".tl-plot-tick")) // the grip covers a tick near it
      attributes(tick, { visibility: Math.abs(tick.getAttribute("x") - x(t)) < 28 ? "hidden" : "visible" });
    attributes(plot, {
      "aria-valuemax": last, "aria-valuenow": t,
      "aria-valuetext": `${t} steps: ${MODELS.map(([key, name]) => `${name} ${short(left[key])}`).join(", ")}`,
    });
    recurrent.draw();
    forget.draw();
    length.draw();
    told.replaceChildren(...story(t, now, left));
  }

  drawGrid();
  const stopWatching = shared.watch(model, draw);
  const stopMeasuring = shared.onWidth(plot, (measured) => {
    width = measured;
    drawGrid();
    draw();
  });
  return () => {
    stopWatching();
    stopMeasuring();
  };
}

export default { render };
