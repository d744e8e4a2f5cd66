/* Heads: the same queries and keys, cut into more and narrower heads. */

const D_MODEL = 8;
const LAYER_WIDTH = 512;

/** Rank of a matrix of whole numbers, by elimination with the largest pivot. */
function rankOf(matrix) {
  const A = shared.copy(matrix);
  let rank = 0;
  for (let column = 0; column < A[0].length && rank < A.length; column += 1) {
    let pivot = rank;
    for (let row = rank + 1; row < A.length; row += 1)
      if (Math.abs(A[row][column]) > Math.abs(A[pivot][column])) pivot = row;
    if (Math.abs(A[pivot][column]) < 1e-9) continue;
    [A[rank], A[pivot]] = [A[pivot], A[rank]];
    for (let row = rank + 1; row < A.length; row += 1) {
      const factor = A[row][column] / A[rank][column];
      for (let k = column; k < A[0].length; k += 1) A[row][k] -= factor * A[rank][k];
    }
    rank += 1;
  }
  return rank;
}

/** Weights and rank of every head: its block of the columns attends on its own. */
function attend({ Q, K, num_heads }) {
  const width = D_MODEL / num_heads;
  return Array.from({ length: num_heads }, (_, head) => {
    const block = (rows) => rows.map((row) => row.slice(head * width, (head + 1) * width));
    const products = shared.matmul(block(Q), shared.transpose(block(K)));
    const weights = products.map((row) => shared.softmax(row.map((s) => s / Math.sqrt(width))));
    return { weights, rank: rankOf(products) };
  });
}

/** What a layer of width 512 costs. */
function cost({ length, num_heads }) {
  return {
    d_head: LAYER_WIDTH / num_heads,
    projections: 4 * length * LAYER_WIDTH * LAYER_WIDTH,
    core: 2 * length * length * LAYER_WIDTH,
    bytes: 4 * num_heads * length * length,
    rank: Math.min(length, LAYER_WIDTH / num_heads),
  };
}

/** A count with three digits and a unit. */
function big(count) {
  for (const [unit, name] of [[1e9, "billion"], [1e6, "million"], [1e3, "thousand"]]) {
    const share = count / unit;
    if (share >= 1) return `${shared.fixed(share, share < 10 ? 2 : share < 100 ? 1 : 0)} ${name}`;
  }
  return String(count);
}

/** Bytes in binary units. */
function memory(size) {
  for (const [power, name] of [[30, "GiB"], [20, "MiB"], [10, "KiB"]])
    if (size >= 2 ** power) return `${size / 2 ** power} ${name}`;
  return `${size} B`;
}

function render({ model, el }) {
  const { h, mark, strong, line, fixed, MINUS } = shared;
  const columns = model.get("columns");
  const sentences = model.get("sentences").map((text) => text.split(" "));
  const firstRow = sentences.map((_, s) => shared.sum(sentences.slice(0, s).map((w) => w.length)));

  /** Words, queries, keys and settings of this moment. */
  function state() {
    const s = model.get("sentence");
    const words = sentences[s];
    const part = (rows) => rows.slice(firstRow[s], firstRow[s] + words.length);
    return {
      words, Q: part(model.get("Q")), K: part(model.get("K")),
      num_heads: model.get("num_heads"), length: model.get("length"),
      asks: Math.min(model.get("asks"), words.length - 1),
    };
  }

  // ---------------------------------------------------------------- the controls

  const option = (text, value) => h("option", { value }, text);
  const choice = (label, write) => {
    const select = h("select", { class: "tl-select",
      onchange: () => shared.change(model, write(Number(select.value))) });
    return { select, node: h("div", { class: "tl-control" }, h("label", {}, h("span", {}, label), select)) };
  };
  const whichSentence = choice("sentence",
    (s) => ({ sentence: s, asks: sentences[s].length - 1 }));
  whichSentence.select.append(...sentences.map((words, s) => option(words.join(" "), s)));
  const whoAsks = choice("who asks", (i) => ({ asks: i }));

  const heads = shared.slider(model, {
    label: "heads", min: 0, max: 3, step: 1,
    read: () => Math.log2(model.get("num_heads")),
    write: (power) => ({ num_heads: 2 ** Math.round(shared.clamp(power, 0, 3)) }),
    text: () => `${model.get("num_heads")}`,
  });
  const length = shared.slider(model, {
    label: "tokens", min: 4, max: 13, step: 1,
    read: () => Math.log2(model.get("length")),
    write: (power) => ({ length: 2 ** Math.round(power) }),
    text: () => `${model.get("length")}`,
  });

  // ------------------------------------------------------------------- the heads

  const all = h("div", { class: "tl-heads" });
  const CELL = 9;

  /** A small map of all weights; the row of the word that asks is framed. */
  function map(weights, asks) {
    const n = weights.length;
    const cells = weights.flatMap((row, i) => row.map((w, j) => {
      const cell = h("rect", { class: "tl-map-cell", x: j * CELL, y: i * CELL, width: CELL, height: CELL });
      const { light, dark } = shared.shade("weights", w);
      cell.style.setProperty("--light", light.ground);
      cell.style.setProperty("--dark", dark.ground);
      return cell;
    }));
    return h("svg", { class: "tl-map", viewBox: `-2 -2 ${n * CELL + 4} ${n * CELL + 4}`, "aria-hidden": "true" },
      ...cells,
      h("rect", { class: "tl-map-edge", x: 0, y: 0, width: n * CELL, height: n * CELL }),
      h("rect", { class: "tl-map-row", x: 0, y: asks * CELL, width: n * CELL, height: CELL }));
  }

  /** The question of a head: its part of the query, with the names of the columns. */
  function question(row, head, width) {
    const terms = [];
    for (let c = head * width; c < (head + 1) * width; c += 1)
      if (row[c]) terms.push(`${String(row[c]).replace("-", MINUS)}·${columns[c]}`);
    return terms.length ? terms.join(" + ").replaceAll(`+ ${MINUS}`, `${MINUS} `) : "nothing";
  }

  function panel(head, found, now) {
    const width = D_MODEL / now.num_heads;
    const row = found.weights[now.asks];
    const words = now.words.map((word, j) => {
      const chip = h("span", { class: "tl-word", onclick: () => shared.change(model, { asks: j }) },
        word, h("span", { class: "tl-word-weight" }, fixed(row[j], 2)));
      shared.paint(chip, shared.shade("weights", row[j]));
      return chip;
    });
    return h("div", { class: "tl-one-head" },
      map(found.weights, now.asks),
      h("div", { class: "tl-head-text" },
        h("div", {}, strong(`head ${head + 1}`), " asks for ", mark("query", question(now.Q[now.asks], head, width))),
        h("div", { class: "tl-words" }, ...words),
        h("div", { class: "tl-muted tl-rank" }, `scores of rank ${found.rank}, at most ${Math.min(width, now.words.length)}`)));
  }

  // -------------------------------------------------------------------- the cost

  const cells = {};
  const costRow = (key, name) => {
    cells[key] = [h("td", {}), h("td", {})];
    return h("tr", {}, h("th", { scope: "row" }, ...name), ...cells[key]);
  };
  const nowHead = h("th", { scope: "col" });
  const costs = h("div", { class: "tl-cost" },
    h("table", {},
      h("caption", {}, "A layer of width 512, as in the base model of 2017"),
      h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "1 head"), nowHead)),
      h("tbody", {},
        costRow("d_head", ["width of a head"]),
        costRow("rank", ["rank of its scores, at most"]),
        costRow("projections", ["multiplications, projections"]),
        costRow("core", ["multiplications, scores and averages"]),
        costRow("bytes", ["scores in float32"]))));

  // ---------------------------------------------------------------------- drawing

  const told = shared.card(el, model, {
    name: "multi_head",
    question: "One wide head or several narrow ones?",
    instruction: "Queries and keys stay as they are; the slider cuts their eight columns into heads.",
    parts: [
      h("div", { class: "tl-controls" }, heads.node, whichSentence.node, whoAsks.node),
      all, costs,
      h("div", { class: "tl-controls" }, length.node),
    ],
    note: "Queries and keys are set by hand, to show what cutting does; no head was trained.",
  });

  /** The two words that get most of a head, with their weights. */
  function reads(row, words) {
    const order = row.map((w, j) => [w, j]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    return order.slice(0, 2).filter(([w]) => w >= 0.05).map(([w, j]) => `${words[j]} ${fixed(w, 2)}`).join(", ");
  }

  let shownSentence = -1;
  return shared.watch(model, () => {
    const now = state();
    const found = attend(now);
    if (shownSentence !== model.get("sentence")) {
      shownSentence = model.get("sentence");
      whoAsks.select.replaceChildren(...now.words.map((word, i) => option(`${word} (${i + 1})`, i)));
    }
    whichSentence.select.value = shownSentence;
    whoAsks.select.value = now.asks;
    heads.draw();
    length.draw();
    all.replaceChildren(...found.map((one, head) => panel(head, one, now)));

    const [single, several] = [1, now.num_heads].map((num_heads) => cost({ length: now.length, num_heads }));
    nowHead.textContent = now.num_heads === 1 ? "now: 1 head" : `now: ${now.num_heads} heads`;
    const texts = { d_head: String, rank: String, projections: big, core: big, bytes: memory };
    for (const [key, write] of Object.entries(texts))
      [single, several].forEach((counted, k) => { cells[key][k].textContent = write(counted[key]); });

    const width = D_MODEL / now.num_heads;
    const idle = (head) => question(now.Q[now.asks], head, width) === "nothing";
    const lines = found.flatMap((one, head) => idle(head) ? [] : [
      line(mark("muted", `head ${head + 1} reads `), reads(one.weights[now.asks], now.words))]);
    const rest = now.num_heads - lines.length;
    told.replaceChildren(
      line(strong(now.words[now.asks]), ` asks, with ${now.num_heads === 1 ? "one head" : `${now.num_heads} heads`}:`),
      ...lines,
      ...(rest ? [line(mark("muted", `${rest} ${rest === 1 ? "head asks" : "heads ask"} for nothing and ${rest === 1 ? "reads" : "read"} all words alike`))] : []));
  });
}

export default { render };
