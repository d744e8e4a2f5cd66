/* AttentionCalculator: three tokens, three small projections, every number told. */

const WIDTH = 2;
const LARGEST = 9;

/** Every matrix of the calculation, from the numbers that can be edited. */
function compute({ X, W_Q, W_K, W_V, scaled, temperature }) {
  const [Q, K, V] = [W_Q, W_K, W_V].map((W) => shared.matmul(X, W));
  const products = shared.matmul(Q, shared.transpose(K));
  const scores = products.map((row) => row.map((s) => (scaled ? s / Math.sqrt(WIDTH) : s)));
  const weights = scores.map((row) => shared.softmax(row.map((s) => s / temperature)));
  return { Q, K, V, products, scores, weights, O: shared.matmul(weights, V) };
}

function render({ model, el }) {
  const { h, mark, strong, sup, sub, line, joined, fixed, MINUS } = shared;
  const keys = ["X", "W_Q", "W_K", "W_V", "scaled", "temperature"];
  const state = () => Object.fromEntries(keys.map((key) => [key, model.get(key)]));
  const tokens = model.get("tokens");
  const dimensions = ["1", "2"];
  const whole = (x) => String(x).replace("-", MINUS);
  const bracket = (x) => (x < 0 ? `(${whole(x)})` : whole(x));
  const roles = { X: "ink", Q: "query", K: "key", V: "value", O: "output" };
  const letter = (text) => h("i", { class: "tl-letter" }, text);
  const projection = (text) =>
    mark(roles[text], h("i", { class: "tl-letter" }, "W", sub(text)));

  // ---------------------------------------------------------------- the numbers

  const choose = (name) => (i, j) => shared.change(model, { chosen: [name, i, j] });

  function write(name, i, j, number) {
    const rows = shared.copy(model.get(name));
    rows[i][j] = shared.clamp(number, -LARGEST, LARGEST);
    shared.change(model, { [name]: rows });
  }

  function step(by) {
    const [name, i, j] = model.get("chosen");
    if (isEdited(name)) write(name, i, j, model.get(name)[i][j] + by);
  }

  const isEdited = (name) => name === "X" || name.startsWith("W_");
  const edit = (name) => ({
    step,
    digit: (n) => write(name, model.get("chosen")[1], model.get("chosen")[2], n),
    reset() {
      const [, i, j] = model.get("chosen");
      write(name, i, j, model.get("start")[name][i][j]);
    },
  });

  const grid = (name, label, role, rows, columns, more = {}) =>
    shared.matrix({ name: label, rows, columns, role, choose: choose(name), ...more });
  const bare = { hideNames: true };
  const grids = {
    X: grid("X", "X, the tokens", "ink", tokens, dimensions, { edit: edit("X") }),
    W_Q: grid("W_Q", "W Q, makes queries", "query", dimensions, dimensions, { ...bare, edit: edit("W_Q") }),
    W_K: grid("W_K", "W K, makes keys", "key", dimensions, dimensions, { ...bare, edit: edit("W_K") }),
    W_V: grid("W_V", "W V, makes values", "value", dimensions, dimensions, { ...bare, edit: edit("W_V") }),
    Q: grid("Q", "Q, asks", "query", tokens, dimensions, bare),
    K: grid("K", "K, offers", "key", tokens, dimensions, bare),
    V: grid("V", "V, carries", "value", tokens, dimensions, bare),
    scores: grid("scores", "scores, row asks column", "ink", tokens, tokens, { showColumns: true }),
    weights: grid("weights", "weights, each row sums to 1", "ink", tokens, tokens, { showColumns: true }),
    O: grid("O", "O, gets", "output", tokens, dimensions),
  };

  // ------------------------------------------------------------------ the stage

  const titled = (name, ...title) =>
    h("div", { class: `tl-matrix tl-is-${name}` }, h("div", { class: "tl-title", "aria-hidden": "true" }, ...title), grids[name].node);
  // A number of Q stands where its row of X and its column of W_Q cross.
  const products = h("div", { class: "tl-products" },
    titled("W_Q", strong(projection("Q"))),
    titled("W_K", strong(projection("K"))),
    titled("W_V", strong(projection("V"))),
    titled("X", strong(letter("X")), " tokens"),
    titled("Q", mark("query", strong(letter("Q"))), " asks"),
    titled("K", mark("key", strong(letter("K"))), " offers"),
    titled("V", mark("value", strong(letter("V"))), " carries"));
  const results = h("div", { class: "tl-results" },
    titled("scores", "scores: row asks column"),
    titled("weights", "weights: rows sum to\u00a01"),
    titled("O", mark("output", strong(letter("O"))), " = weights · ", mark("value", strong(letter("V")))));

  const scaled = h("input", { type: "checkbox",
    onchange: () => shared.change(model, { scaled: scaled.checked }) });
  const temperature = shared.slider(model, {
    label: "temperature", min: -1, max: 1, step: 0.05,
    read: () => Math.log10(model.get("temperature")),
    write: (x) => ({ temperature: Number((10 ** x).toPrecision(2)) }),
    text: () => model.get("temperature").toPrecision(2),
  });
  const stepper = shared.stepper({ label: "chosen number", step });
  const controls = h("div", { class: "tl-controls" },
    h("div", { class: "tl-control" },
      h("label", {}, scaled, h("span", {}, "divide by √", h("i", {}, "d"), sub("k")))),
    temperature.node, stepper.node);

  // ------------------------------------------------- the arithmetic of one cell

  const q = (x) => mark("query", whole(x));
  const k = (x) => mark("key", bracket(x));
  const v = (x) => mark("value", bracket(x));
  const product = (left, right) => [left, "·", right];

  const tell = {
    projected(name, i, j, now, found) {
      const W = now[`W_${name}`];
      const tone = (x) => mark(roles[name], bracket(x));
      const terms = joined(now.X[i].map((x, m) => product(whole(x), tone(W[m][j]))), " + ");
      return [
        line(strong(tokens[i]), { Q: " asks", K: " offers", V: " carries" }[name], `, number ${j + 1}:`),
        line(mark(roles[name], name.toLowerCase()), " = ", letter("x"), "·", projection(name), " = ",
          ...terms, " = ", mark(roles[name], whole(found[name][i][j]))),
      ];
    },
    edited(name, i, j, now) {
      const where = name === "X"
        ? [strong(tokens[i]), `, number ${j + 1}:`]
        : [strong(projection(name[2])), `, row ${i + 1}, column ${j + 1}:`];
      return [
        line(...where),
        line(whole(now[name][i][j]), mark("muted", `  yours to change, from ${MINUS}${LARGEST} to ${LARGEST}`)),
      ];
    },
    pair(i, j, now, found) {
      const { Q, K, products, scores, weights } = found;
      const terms = joined(Q[i].map((x, m) => product(q(x), k(K[j][m]))), " + ");
      const warm = now.temperature !== 1;
      const power = (s) => ["e", sup(fixed(s / now.temperature, 2))];
      return [
        line(strong(tokens[i]), " asks ", strong(tokens[j]), ":"),
        line("score = ", mark("query", "q"), "·", mark("key", "k"), ...(now.scaled ? [" / √2"] : []), " = ",
          ...(now.scaled ? ["(", ...terms, ") / 1.41"] : terms), " = ",
          now.scaled ? fixed(scores[i][j], 2) : whole(products[i][j])),
        line("weight = ", warm ? `softmax(scores / ${now.temperature.toPrecision(2)}) = ` : "", ...power(scores[i][j]), " / (", ...joined(scores[i].map(power), " + "), ") = ", fixed(weights[i][j], 3)),
      ];
    },
    output(i, j, now, found) {
      const terms = joined(found.weights[i].map((w, m) => product(fixed(w, 3), v(found.V[m][j]))), " + ");
      return [
        line(strong(tokens[i]), ` gets, number ${j + 1}:`),
        line(mark("output", "o"), " = weights·", mark("value", "v"), " = ", ...terms, " = ",
          mark("output", fixed(found.O[i][j], 2))),
      ];
    },
  };

  function story([name, i, j], now, found) {
    if (isEdited(name)) return tell.edited(name, i, j, now);
    if (name === "scores" || name === "weights") return tell.pair(i, j, now, found);
    if (name === "O") return tell.output(i, j, now, found);
    return tell.projected(name, i, j, now, found);
  }

  /** Is the cell (i, j) of `name` one that the chosen number is made of? */
  function isSource(name, [chosen, row, column]) {
    const pairs = chosen === "scores" || chosen === "weights";
    return (i, j) =>
      (chosen === "O" && name === "weights" && i === row) ||
      (chosen === "O" && name === "V" && j === column) ||
      (pairs && name === "Q" && i === row) ||
      (pairs && name === "K" && i === column) ||
      (chosen === "weights" && name === "scores" && i === row) ||
      (roles[chosen] && chosen !== "O" && chosen !== "X" &&
        ((name === "X" && i === row) || (name === `W_${chosen}` && j === column)));
  }

  // ---------------------------------------------------------------------- drawing

  const told = shared.card(el, model, {
    name: "attention",
    question: "Who does each token look at?",
    instruction: "Change any underlined number. Choose a cell to see its arithmetic.",
    parts: [products, results, controls],
  });

  return shared.watch(model, () => {
    const now = state();
    const found = compute(now);
    const chosen = model.get("chosen");
    const largest = Math.max(1e-9, ...found.scores.flat().map(Math.abs));
    const shades = {
      scores: found.scores.map((row) => row.map((s) => shared.shade("signed", 0.5 + (0.42 * s) / largest))),
      weights: found.weights.map((row) => row.map((w) => shared.shade("weights", w))),
    };
    const digits = { scores: now.scaled ? 1 : 0, weights: 2, O: 2 };
    for (const [name, grid] of Object.entries(grids)) {
      const numbers = now[name] ?? found[name];
      grid.draw({
        texts: numbers.map((row) => row.map((x) =>
          fixed(x, name === "scores" && Math.abs(x) >= 99.95 ? 0 : digits[name] ?? 0))),
        chosen: chosen[0] === name ? chosen.slice(1) : null,
        source: isSource(name, chosen),
        shades: shades[name],
      });
    }
    scaled.checked = now.scaled;
    temperature.draw();
    const [name, i, j] = chosen;
    stepper.draw([isEdited(name) ? (name === "X" ? `${tokens[i]} ${j + 1}` : `W ${name[2]}`) : "chosen number"],
      isEdited(name) ? whole(now[name][i][j]) : null);
    told.replaceChildren(...story(chosen, now, found));
  });
}

export default { render };
