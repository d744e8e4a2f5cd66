/* Lookup: a query among keys in the plane, and the value that comes back. */

const EDGE = 1.5; // of the plane
const GRID = 0.05; // the query moves in steps of this size
const LARGEST = 999;

/** Scores, weights, output and entropy of one soft lookup. */
function compute({ query, places, values, temperature }) {
  const scores = places.map((key) => shared.dot(query, key));
  const weights = shared.softmax(scores.map((s) => s / temperature));
  return { scores, weights, output: shared.dot(weights, values), entropy: shared.entropy(weights) };
}

function render({ model, el }) {
  const { h, mark, strong, sup, line, joined, fixed, plain, attributes, clamp, MINUS } = shared;
  const names = model.get("names");
  const places = model.get("places");
  const state = () => Object.fromEntries(
    ["query", "temperature", "places", "values"].map((key) => [key, model.get(key)]));
  const snap = (x) => clamp(Math.round(x / GRID) / Math.round(1 / GRID), -EDGE, EDGE);
  const move = (x, y) => shared.change(model, { query: [snap(x), snap(y)] });
  const choose = (i) => shared.change(model, { chosen: i });
  const bracket = (x) => (x < 0 ? `(${fixed(x, 2)})` : fixed(x, 2));

  function write(number) {
    const values = [...model.get("values")];
    values[model.get("chosen")] = clamp(number, -LARGEST, LARGEST);
    shared.change(model, { values });
  }

  const step = (by) => write(model.get("values")[model.get("chosen")] + by);

  // ------------------------------------------------------------------- the plane

  const SIZE = 320;
  const px = (x) => (SIZE * (x + EDGE)) / (2 * EDGE);
  const py = (y) => SIZE - px(y);
  const rays = places.map(([x, y]) => h("line", { class: "tl-ray", x1: px(x), y1: py(y) }));
  const dots = places.map(([x, y], i) =>
    h("g", { class: "tl-dot", onclick: () => options[i].focus() },
      h("circle", { class: "tl-halo", cx: px(x), cy: py(y), r: 14 }),
      h("circle", { class: "tl-key-dot", cx: px(x), cy: py(y), r: 7 })));
  const labels = places.map(([x, y], i) =>
    h("text", { class: "tl-key-label", x: px(x), y: py(y) + (y < 0 ? 33 : -21) },
      `${names[i]} `, h("tspan", { class: "tl-value-text" })));
  const arrow = h("line", { class: "tl-arrow", x1: px(0), y1: py(0) });
  const letter = h("text", { class: "tl-query-letter" }, "q");
  const handle = h("circle", {
    class: "tl-handle", r: 15, tabindex: 0, role: "slider", "aria-label": "query",
    "aria-valuemin": -EDGE, "aria-valuemax": EDGE,
  });
  const plane = h("svg", { class: "tl-plane", viewBox: `0 0 ${SIZE} ${SIZE}` },
    h("line", { class: "tl-axis", x1: 0, x2: SIZE, y1: py(0), y2: py(0) }),
    h("line", { class: "tl-axis", x1: px(0), x2: px(0), y1: 0, y2: SIZE }),
    h("circle", { class: "tl-axis", cx: px(0), cy: py(0), r: px(1) - px(0) }),
    ...rays, arrow, ...dots, ...labels, handle, letter);

  function toPointer(event) {
    const box = plane.getBoundingClientRect();
    const share = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    move((2 * share[0] - 1) * EDGE, (1 - 2 * share[1]) * EDGE);
  }

  shared.draggable(plane, {
    ignore: (target) => target.closest(".tl-dot"),
    grip: handle,
    start: () => handle.focus({ preventScroll: true }),
    move: toPointer,
  });
  handle.addEventListener("keydown", (event) => {
    const [x, y] = model.get("query");
    const by = event.shiftKey ? 5 * GRID : GRID;
    const moves = {
      ArrowLeft: [x - by, y], ArrowRight: [x + by, y], ArrowUp: [x, y + by],
      ArrowDown: [x, y - by], Escape: model.get("start").query,
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    move(...moves[event.key]);
  });

  // -------------------------------------------------------------------- the keys

  const unseen = (words) => h("span", { class: "tl-hidden" }, words);
  const parts = names.map(() => ({
    score: h("span", {}),
    bar: h("span", { class: "tl-fill" }),
    weight: h("span", {}),
    value: h("span", { class: "tl-value tl-underlined" }),
  }));
  const options = names.map((name, i) =>
    h("div", { role: "option", class: "tl-option", onfocus: () => choose(i),
      onclick: () => options[i].focus() },
    h("span", { class: "tl-key tl-option-name" }, name),
    h("span", { class: "tl-score" }, unseen("score "), parts[i].score),
    h("span", { class: "tl-bar" }, parts[i].bar),
    h("span", { class: "tl-weight-number" }, unseen("weight "), parts[i].weight),
    h("span", { class: "tl-carried" }, unseen("value "), parts[i].value)));
  const list = h("div", {
    role: "listbox", "aria-label": "keys", class: "tl-options",
    onkeydown(event) {
      const i = options.indexOf(event.target);
      if (i < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: names.length - 1 };
      if (event.key in moves) options[clamp(moves[event.key], 0, names.length - 1)].focus();
      else if (shared.STEPS[event.key]) step(shared.STEPS[event.key]);
      else if (/^\d$/.test(event.key)) write(Number(event.key));
      else if (event.key === "Escape") write(model.get("start").values[i]);
      else return;
      event.preventDefault();
    },
  }, ...options);
  const heading = h("div", { class: "tl-option tl-option-head", "aria-hidden": "true" },
    h("span", {}, "key"), h("span", { class: "tl-score" }, "score"), h("span", {}, "weight"),
    h("span", {}), h("span", { class: "tl-carried" }, "value"));

  // ----------------------------------------------------- where the output lies

  const tickNumbers = names.map(() => h("span", {}));
  const ticks = tickNumbers.map((text) =>
    h("span", { class: "tl-tick tl-value" }, h("span", { class: "tl-notch" }), text));
  const output = h("span", {});
  const marker = h("span", { class: "tl-marker tl-output" }, output, h("span", { class: "tl-pointer" }));
  const track = h("div", { class: "tl-track", "aria-hidden": "true" },
    h("span", { class: "tl-rail" }), ...ticks, marker);

  const temperature = shared.slider(model, {
    label: "temperature", min: -2, max: 2, step: 0.1,
    read: () => Math.log10(model.get("temperature")),
    write: (x) => ({ temperature: Number((10 ** x).toPrecision(2)) }),
    text: () => written(model.get("temperature")),
    ends: ["hard lookup", "average"],
  });
  const written = (t) => (t < 0.0995 ? t.toPrecision(2) : plain(Number(t.toPrecision(2))));
  const stepper = shared.stepper({ label: "value of the chosen key", step });

  const told = shared.card(el, model, {
    name: "lookup",
    question: "Which value comes back?",
    instruction: "Drag the query q, or move it with the arrow keys. Choose a key to see its arithmetic.",
    parts: [
      h("div", { class: "tl-lookup" }, plane,
        h("div", { class: "tl-side" }, heading, list, track)),
      h("div", { class: "tl-controls" }, temperature.node, stepper.node),
    ],
  });

  // ---------------------------------------------------------------- the arithmetic

  function story(i, { query, values, temperature: T }, found) {
    const power = (s) => ["e", sup(fixed(s / T, 2))];
    const terms = query.map((x, m) =>
      [mark("query", bracket(x)), "·", mark("key", bracket(places[i][m]))]);
    const same = shared.sum(found.weights.map((w) => w * w)) > 1 - 1e-9;
    return [
      line(strong(names[i]), ":"),
      line("score = ", mark("query", "q"), "·", mark("key", "k"), " = ", ...joined(terms, " + "),
        " = ", fixed(found.scores[i], 3)),
      line(`weight = softmax(scores / ${written(T)}) = `, ...power(found.scores[i]), " / (", ...joined(found.scores.map(power), " + "),
        ") = ", fixed(found.weights[i], 3)),
      line(mark("output", "output"), " = ", ...joined(found.weights.map((w, m) =>
        [m === i ? strong(fixed(w, 3)) : fixed(w, 3), "·",
          mark("value", values[m] < 0 ? `(${plain(values[m])})` : plain(values[m]))]), " + "),
      " = ", mark("output", fixed(found.output, 2))),
      line("entropy = ", fixed(found.entropy, 2), mark("muted",
        same ? "  one key has it all" : `  as if ${fixed(Math.exp(found.entropy), 1)} keys shared equally`)),
    ];
  }

  // ---------------------------------------------------------------------- drawing

  return shared.watch(model, () => {
    const now = state();
    const found = compute(now);
    const chosen = Math.min(model.get("chosen"), names.length - 1);
    const [x, y] = now.query;
    names.forEach((_, i) => {
      const weight = found.weights[i];
      attributes(rays[i], { x2: px(x), y2: py(y), "stroke-width": 1 + 7 * weight, opacity: weight < 0.005 ? 0 : 0.25 + 0.75 * weight });
      dots[i].classList.toggle("tl-chosen", i === chosen);
      labels[i].lastChild.textContent = plain(now.values[i]);
      parts[i].score.textContent = fixed(found.scores[i], 2);
      parts[i].bar.style.width = `${100 * weight}%`;
      parts[i].weight.textContent = fixed(weight, 2);
      parts[i].value.textContent = plain(now.values[i]);
      attributes(options[i], {
        "aria-selected": i === chosen, tabindex: i === chosen ? 0 : -1,
      });
    });
    attributes(arrow, { x2: px(x), y2: py(y) });
    attributes(handle, { cx: px(x), cy: py(y), "aria-valuenow": x,
      "aria-valuetext": `${fixed(x, 2)} across, ${fixed(y, 2)} up` });
    attributes(letter, { x: px(x), y: py(y) + 5 });

    const [low, high] = [Math.min(...now.values), Math.max(...now.values)];
    const place = (v) => `${high > low ? (100 * (v - low)) / (high - low) : 50}%`;
    ticks.forEach((tick, i) => {
      tick.style.left = place(now.values[i]);
      tickNumbers[i].textContent = plain(now.values[i]);
    });
    marker.style.left = place(found.output);
    output.textContent = fixed(found.output, 2);

    temperature.draw();
    stepper.draw(["value of ", strong(names[chosen])], plain(now.values[chosen]));
    told.replaceChildren(...story(chosen, now, found));
  });
}

export default { render };
