/* PadDial: more padding, the same dates. Plays runs that were recorded. */

const MOST = 30;
const MODELS = [["with_mask", "with the mask", "query"], ["without_mask", "without it", "key"]];

function render({ model, el }) {
  const { h, mark, strong, line, fixed, attributes } = shared;
  const percent = (x) => `${fixed(100 * x, 1)} %`;
  const [written, isos, answers] = ["written", "isos", "answers"].map((key) => model.get(key));
  const series = Object.fromEntries(MODELS.map(([key]) => [key, model.get(key)]));
  const seeds = model.get("seeds");

  // --------------------------------------------------------------------- the plot

  const HEIGHT = 250;
  const [LEFT, RIGHT, ABOVE, BELOW] = [46, 14, 30, 44];
  let width = 640;
  const x = (pads) => LEFT + ((width - LEFT - RIGHT) * pads) / MOST;
  const y = (share) => ABOVE + (HEIGHT - ABOVE - BELOW) * (1 - share);
  const frame = h("g", { class: "tl-plot-grid" });
  const bands = MODELS.map(([, , role]) => h("path", { class: `tl-band tl-band-${role}` }));
  const curves = MODELS.map(([, , role]) => h("path", { class: `tl-curve tl-dial-${role}` }));
  const labels = MODELS.map(([, , role]) =>
    h("text", { class: `tl-plot-label tl-dial-text-${role}`, "text-anchor": "end" }));
  const cursor = h("line", { class: "tl-cursor", y1: ABOVE - 4, y2: HEIGHT - BELOW + 5 });
  const dots = MODELS.map(([, , role]) => h("circle", { class: `tl-dial-dot-${role}`, r: 5 }));
  const plot = h("svg", { class: "tl-plot tl-dial", height: HEIGHT, "aria-hidden": "true" },
    frame, ...bands, ...curves, cursor, ...dots, ...labels);
  shared.draggable(plot, { move: (event) => {
    const box = plot.getBoundingClientRect();
    const at = (MOST * (event.clientX - box.left - LEFT)) / (width - LEFT - RIGHT);
    shared.change(model, { pads: shared.clamp(Math.round(at), 0, MOST) });
  } });

  function drawPlot() {
    attributes(plot, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const text = (at, words, anchor) =>
      h("text", { class: "tl-plot-text", "text-anchor": anchor, ...at }, words);
    const parts = [text({ x: 10, y: 18 }, "dates read right", "start")];
    for (const share of [0, 0.5, 1]) {
      parts.push(h("line", { x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }));
      parts.push(text({ x: LEFT - 6, y: y(share) + 4 }, `${100 * share} %`, "end"));
    }
    for (let pads = 0; pads <= MOST; pads += 10)
      parts.push(text({ x: x(pads), y: HEIGHT - BELOW + 19 }, `${pads}`, "middle"));
    parts.push(text({ x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 5 }, "extra padding behind every date", "middle"));
    frame.replaceChildren(...parts);
    MODELS.forEach(([key], m) => {
      const points = series[key].map(([middle, low, high], pads) => ({
        at: x(pads), middle: y(middle), low: y(low), high: y(high) }));
      const join = (list) => list.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join("L");
      attributes(curves[m], { d: `M${join(points.map((p) => [p.at, p.middle]))}` });
      attributes(bands[m], { d: `M${join([...points.map((p) => [p.at, p.high]), ...points.map((p) => [p.at, p.low]).reverse()])}Z` });
    });
  }

  // -------------------------------------------------------------------- the dates

  const cellsOf = () => h("td", {});
  const rows = written.map((text, d) => {
    const answers = MODELS.map(cellsOf);
    const asked = h("th", { scope: "row" });
    return { d, text, asked, answers, node: h("tr", {}, asked, ...answers) };
  });
  const dates = h("table", { class: "tl-dates" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "the model reads"),
      ...MODELS.map(([, name]) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => row.node)));

  /** An answer, its wrong characters underlined. */
  function marked(answer, right) {
    return [...answer].map((c, i) => (c === right[i] ? c : h("u", { class: "tl-wrong" }, c)));
  }

  // ------------------------------------------------------------------ the control

  const pads = shared.slider(model, {
    label: "extra padding", min: 0, max: MOST, step: 1,
    read: () => model.get("pads"),
    write: (value) => ({ pads: value }),
    text: () => String(model.get("pads")),
  });

  const told = shared.card(el, model, {
    name: "pad_dial",
    question: "Is a date with more padding another date?",
    instruction: "Add padding behind every date, more than in training, and read what comes out.",
    parts: [plot, h("div", { class: "tl-controls" }, pads.node), h("div", { class: "tl-dates-box" }, dates)],
    note: `Recorded runs: median of ${seeds} seeds, with the lowest and the highest. The three dates are answered by the models of the first seed.`,
  });

  const stop = shared.onWidth(plot, (now) => {
    width = now;
    drawPlot();
    draw();
  });

  function draw() {
    const now = model.get("pads");
    pads.draw();
    attributes(cursor, { x1: x(now), x2: x(now) });
    MODELS.forEach(([key, name], m) => {
      const [middle] = series[key][now];
      attributes(dots[m], { cx: x(now), cy: y(middle) });
      labels[m].textContent = name;
      const last = series[key][24][0];
      attributes(labels[m], { x: width - RIGHT, y: m ? Math.min(y(last) - 14, HEIGHT - BELOW - 30) : y(last) + 20 });
    });
    rows.forEach(({ d, text, asked, answers: boxes }) => {
      asked.replaceChildren(text, mark("muted", "·".repeat(now)));
      asked.setAttribute("aria-label", `${text} and ${now} pads`);
      boxes.forEach((box, m) => {
        box.replaceChildren(...marked(answers[(now * 2 + m) * written.length + d], isos[d]));
      });
    });
    told.replaceChildren(
      line(strong(now === 1 ? "1 pad" : `${now} pads`), now === 0 ? ", padded as in training:" : " more than in training:"),
      ...MODELS.map(([key, name, role]) => {
        const [middle, low, high] = series[key][now];
        return line(mark(role, strong(name)), ` ${percent(middle)} right (${percent(low)} to ${percent(high)})`);
      }));
  }

  drawPlot();
  const unwatch = shared.watch(model, draw);
  return () => { stop(); unwatch(); };
}

export default { render };
