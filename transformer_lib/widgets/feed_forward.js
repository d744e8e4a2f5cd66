/* Bend: a feed-forward network with two to eight hidden units, and the plane it colours. */

const [LOW, HIGH] = [-0.5, 1.5]; // of both inputs
const GRID = 0.05; // the point moves in steps of this size
const CELLS = 20; // of the coloured plane, in each direction
const LARGEST = 9;
const CORNERS = [[0, 0], [0, 1], [1, 0], [1, 1]];
const wanted = ([a, b]) => (a === b ? 0 : 1); // exclusive or

/** What each hidden unit holds, what it writes, and the output, at one point. */
function compute({ units, network, bend }, [a, b]) {
  const before = network.slice(0, units).map(([W_a, W_b, bias]) => W_a * a + W_b * b + bias);
  const hidden = before.map((x) => (bend ? Math.max(0, x) : x));
  const written = hidden.map((x, m) => x * network[m][3]);
  return { before, hidden, written, output: shared.sum(written) };
}

/** Is the corner on its side of one half? */
const isRight = (output, corner) => (wanted(corner) ? output > 0.5 : output < 0.5);

function render({ model, el }) {
  const { h, mark, strong, line, joined, fixed, attributes, clamp } = shared;
  const state = () => Object.fromEntries(
    ["units", "network", "bend"].map((key) => [key, model.get(key)]));
  const snap = (x) => clamp(Math.round(x / GRID) / Math.round(1 / GRID), LOW, HIGH);
  const move = (a, b) => shared.change(model, { point: [snap(a), snap(b)] });
  const whole = (x) => String(x).replace("-", shared.MINUS);
  const bracket = (text) => (text.startsWith(shared.MINUS) ? `(${text})` : text);
  const italic = (text) => h("i", {}, text);

  // ------------------------------------------------------------------- the plane

  const SIZE = 300;
  const SIDE = SIZE / CELLS;
  const px = (a) => (SIZE * (a - LOW)) / (HIGH - LOW);
  const py = (b) => SIZE - px(b);
  const middle = (i) => LOW + ((i + 0.5) * (HIGH - LOW)) / CELLS;
  const cells = Array.from({ length: CELLS * CELLS }, (_, i) => h("rect", {
    class: "tl-bend-cell", x: (i % CELLS) * SIDE, y: SIZE - SIDE * (Math.floor(i / CELLS) + 1),
    width: SIDE + 0.4, height: SIDE + 0.4,
  }));
  const levels = Array.from({ length: 21 }, (_, i) => shared.shade("signed", i / 20));
  const levelOf = (output) => Math.round(20 * clamp(0.5 + 0.45 * (output - 0.5), 0, 1));
  const painted = cells.map(() => null);
  const cut = h("line", { class: "tl-bend-cut", x1: 0, x2: SIZE });
  const rings = CORNERS.map(([a, b]) => h("circle", { class: "tl-bend-corner", cx: px(a), cy: py(b), r: 12 }));
  const digits = CORNERS.map((corner) => h("text", { class: "tl-bend-digit", x: px(corner[0]), y: py(corner[1]) + 5 }, `${wanted(corner)}`));
  const handle = h("circle", {
    class: "tl-bend-handle", r: 18, tabindex: 0, role: "slider", "aria-label": "point",
    "aria-valuemin": LOW, "aria-valuemax": HIGH,
  });
  const plane = h("svg", { class: "tl-plane", viewBox: `0 0 ${SIZE} ${SIZE}` },
    ...cells, cut, ...rings, ...digits, handle);
  shared.draggable(plane, {
    grip: handle,
    start: () => handle.focus({ preventScroll: true }),
    move(event) {
      const box = plane.getBoundingClientRect();
      const across = (event.clientX - box.left) / box.width;
      const down = (event.clientY - box.top) / box.height;
      move(LOW + across * (HIGH - LOW), HIGH - down * (HIGH - LOW));
    },
  });
  handle.addEventListener("keydown", (event) => {
    const [a, b] = model.get("point");
    const by = event.shiftKey ? 5 * GRID : GRID;
    const moves = {
      ArrowLeft: [a - by, b], ArrowRight: [a + by, b], ArrowUp: [a, b + by],
      ArrowDown: [a, b - by], Escape: model.get("start").point,
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(...moves[event.key]);
  });

  // ------------------------------------------------ the function along the cut

  const [BOTTOM, TOP] = [-2, 3]; // outputs that are shown
  const [LEFT, ABOVE, BELOW, RIGHT] = [30, 26, 40, 8];
  const HEIGHT = 300;
  let width = 330;
  const ax = (a) => ((width - LEFT - RIGHT) * (a - LOW)) / (HIGH - LOW);
  const ay = (y) => ((HEIGHT - ABOVE - BELOW) * (TOP - y)) / (TOP - BOTTOM);
  const grid = h("g", { class: "tl-plot-grid" });
  const parts = Array.from({ length: 8 }, () => h("path", { class: "tl-bend-part" }));
  const curve = h("path", { class: "tl-bend-curve" });
  const kinks = Array.from({ length: 8 }, () => h("circle", { class: "tl-bend-kink", r: 4 }));
  const here = h("circle", { class: "tl-bend-here", r: 6 });
  const inside = h("svg", { x: LEFT, y: ABOVE, height: HEIGHT - ABOVE - BELOW },
    ...parts, curve, ...kinks, here);
  const title = h("text", { class: "tl-plot-text", x: 4, y: 16 });
  const plot = h("svg", { class: "tl-bend-plot", height: HEIGHT, "aria-hidden": "true" }, grid, inside, title);

  function drawGrid() {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    attributes(inside, { width: width - LEFT - RIGHT });
    const text = (at, words, anchor) => h("text", { class: "tl-plot-text", ...at, "text-anchor": anchor }, words);
    const lines = [];
    for (let y = BOTTOM; y <= TOP; y += 1) {
      lines.push(h("line", { class: y ? "" : "tl-one", x1: LEFT, x2: width - RIGHT, y1: ABOVE + ay(y), y2: ABOVE + ay(y) }),
        text({ x: LEFT - 6, y: ABOVE + ay(y) + 4 }, whole(y), "end"));
    }
    for (const a of [0, 0.5, 1]) lines.push(text({ x: LEFT + ax(a), y: HEIGHT - 22 }, `${a}`, "middle"));
    lines.push(text({ x: LEFT + ax(0.5), y: HEIGHT - 5 }, "input a", "middle"));
    grid.replaceChildren(...lines);
  }

  /** Where unit m bends along the cut at height b, if anywhere. */
  function bendOf([W_a, W_b, bias], b) {
    const a = -(W_b * b + bias) / W_a;
    return W_a && a > LOW && a < HIGH ? a : null;
  }

  function drawCut(now, b) {
    const bends = now.network.map((unit, m) => (now.bend && m < now.units ? bendOf(unit, b) : null));
    const places = [LOW, HIGH, ...bends.filter((a) => a !== null)].sort((one, other) => one - other);
    const found = places.map((a) => compute(now, [a, b]));
    const path = (values) => `M${places.map((a, i) => `${ax(a).toFixed(1)},${ay(values[i]).toFixed(1)}`).join("L")}`;
    parts.forEach((part, m) =>
      attributes(part, { d: m < now.units ? path(found.map((f) => f.written[m])) : "M0,0" }));
    attributes(curve, { d: path(found.map((f) => f.output)) });
    kinks.forEach((kink, m) => {
      const a = bends[m];
      const shown = a !== null && now.network[m][3] !== 0;
      attributes(kink, { opacity: shown ? 1 : 0,
        ...(shown ? { cx: ax(a), cy: ay(compute(now, [a, b]).output) } : {}) });
    });
  }

  // ------------------------------------------------------ the units, the corners

  function write(number) {
    const network = shared.copy(model.get("network"));
    network[model.get("row")][model.get("column")] = clamp(number, -LARGEST, LARGEST);
    shared.change(model, { network });
  }

  const step = (by) => write(model.get("network")[model.get("row")][model.get("column")] + by);
  const names = Array.from({ length: 8 }, (_, m) => `unit ${m + 1}`);
  const table = shared.matrix({
    name: "hidden units", rows: names, columns: ["a", "b", "bias", "out"], showColumns: true, role: "ink",
    choose: (row, column) => shared.change(model, { row, column }),
    edit: {
      step, digit: write,
      reset: () => write(model.get("start").network[model.get("row")][model.get("column")]),
    },
  });
  const tableRows = [...table.node.querySelectorAll(".tl-row")].slice(1);
  const corners = shared.matrix({
    name: "corners", rows: CORNERS.map((corner) => `${corner[0]}, ${corner[1]}`),
    columns: ["wanted", "output"], showColumns: true, role: "output",
    choose(i, j) {
      side = j;
      move(...CORNERS[i]);
      drawCorners(); // a step to the other column changes nothing else
    },
  });
  let side = 1; // the column that Tab comes back to

  const units = shared.slider(model, {
    label: "hidden units", min: 2, max: 8, step: 1,
    read: () => model.get("units"),
    write: (n) => ({ units: n, row: Math.min(model.get("row"), n - 1) }),
    text: () => `${model.get("units")}`,
  });
  const bend = h("input", { type: "checkbox",
    onchange: () => shared.change(model, { bend: bend.checked }) });
  const stepper = shared.stepper({ label: "chosen number", step });

  const told = shared.card(el, model, {
    name: "feed_forward",
    question: "What can a few bends draw?",
    instruction: "Change an underlined number, or drag the ring. One number is wrong: can you get all four corners right?",
    parts: [
      h("div", { class: "tl-bend" },
        h("div", { class: "tl-bend-left" }, plane,
          h("div", { class: "tl-bend-axes" }, "across: ", italic("a"), "  up: ", italic("b"))),
        plot),
      h("div", { class: "tl-bend-tables" },
        h("div", {}, h("div", { class: "tl-title", "aria-hidden": "true" }, "what each unit reads and writes"), table.node),
        h("div", {}, h("div", { class: "tl-title", "aria-hidden": "true" }, "the four corners"), corners.node)),
      h("div", { class: "tl-controls" },
        units.node,
        h("div", { class: "tl-control" }, h("label", {}, bend, h("span", {}, "bend at 0"))),
        stepper.node),
    ],
    note: "Orange: the output is below one half, the network says 0. Blue: above, it says 1. Corners want the digit in them; a dashed circle does not get it.",
  });

  // ---------------------------------------------------------------- the arithmetic

  function story(m, point, now, found, right) {
    const [W_a, W_b, bias, out] = now.network[m];
    const x = point.map((value) => mark("query", bracket(fixed(value, 2))));
    const inner = [mark("key", whole(W_a)), "·", x[0], " + ", mark("key", bracket(whole(W_b))), "·", x[1],
      " + ", mark("key", bracket(whole(bias)))];
    return [
      line(strong(names[m]), " at ", italic("a"), ` = ${fixed(point[0], 2)}, `, italic("b"), ` = ${fixed(point[1], 2)}:`),
      line("hidden = ", ...(now.bend ? ["max(0, ", ...inner, ")"] : inner), " = ", fixed(found.hidden[m], 2)),
      line("writes ", fixed(found.hidden[m], 2), "·", mark("value", bracket(whole(out))), " = ", fixed(found.written[m], 2)),
      line(mark("output", "output"), " = ", ...joined(found.written.map((w, i) => {
        const text = bracket(fixed(w, 2));
        return [i === m ? strong(text) : text];
      }), " + "), " = ", mark("output", fixed(found.output, 2))),
      line(`${right} of 4 corners right`, mark("muted", now.bend ? "" : "  without a bend the output is one flat slope")),
    ];
  }

  // ---------------------------------------------------------------------- drawing

  /** Output at each corner, in the table and around the digits; returns how many are right. */
  function drawCorners() {
    const [now, point] = [state(), model.get("point")];
    const outputs = CORNERS.map((corner) => compute(now, corner).output);
    const hits = outputs.map((output, i) => isRight(output, CORNERS[i]));
    rings.forEach((ring, i) => ring.classList.toggle("tl-bend-wrong", !hits[i]));
    const at = CORNERS.findIndex(([a, b]) => a === point[0] && b === point[1]);
    corners.draw({
      texts: CORNERS.map((corner, i) =>
        [`${wanted(corner)}`, fixed(outputs[i], Math.abs(outputs[i]) < 99.95 ? 2 : 0)]),
      chosen: at < 0 ? null : [at, side],
      shades: outputs.map((output) => [levels[10], levels[levelOf(output)]]),
    });
    return hits.filter(Boolean).length;
  }

  function draw() {
    const now = state();
    const point = model.get("point");
    const row = Math.min(model.get("row"), now.units - 1);
    const found = compute(now, point);
    cells.forEach((cell, i) => {
      const level = levelOf(compute(now, [middle(i % CELLS), middle(Math.floor(i / CELLS))]).output);
      if (painted[i] === level) return;
      painted[i] = level;
      cell.style.setProperty("--light", levels[level].light.ground);
      cell.style.setProperty("--dark", levels[level].dark.ground);
    });
    const right = drawCorners();
    attributes(cut, { y1: py(point[1]), y2: py(point[1]) });
    attributes(handle, {
      cx: px(point[0]), cy: py(point[1]), "aria-valuenow": point[0],
      "aria-valuetext": `a ${fixed(point[0], 2)}, b ${fixed(point[1], 2)}: output ${fixed(found.output, 2)}`,
    });
    drawCut(now, point[1]);
    attributes(here, { cx: ax(point[0]), cy: ay(clamp(found.output, BOTTOM, TOP)) });
    title.textContent = `output along the line b = ${fixed(point[1], 2)}`;
    tableRows.forEach((one, m) => { one.hidden = m >= now.units; });
    table.draw({
      texts: now.network.map((unit) => unit.map(whole)),
      chosen: [row, model.get("column")],
    });
    units.draw();
    bend.checked = now.bend;
    stepper.draw([strong(names[row]), ` ${["a", "b", "bias", "out"][model.get("column")]}`],
      whole(now.network[row][model.get("column")]));
    told.replaceChildren(...story(row, point, now, found, right));
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
