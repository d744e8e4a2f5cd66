/* Map: the whole Transformer, box by box, with what every part costs. */

const OPTIONS = {
  d_model: [64, 128, 256, 512, 1024, 2048],
  num_heads: [1, 2, 4, 8, 16],
  layers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
  vocabulary: [100, 1000, 8000, 16000, 32000, 37000, 50000, 100000],
  length: [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
};
const BIG = { d_model: 1024, num_heads: 16, layers: 6, vocabulary: 37000 };
const BASE = { d_model: 512, num_heads: 8, layers: 6, vocabulary: 37000 };

/** One layer's attention, network and norm, and the last product: parameters, FLOPs, bytes. */
function costs({ d_model: d, num_heads: h, vocabulary, length: n }) {
  return {
    attention: { parameters: 4 * d * d + 4 * d, flops: 8 * n * d * d + 4 * n * n * d, bytes: 4 * h * n * n },
    network: { parameters: 8 * d * d + 5 * d, flops: 16 * n * d * d, bytes: 0 },
    norm: { parameters: 2 * d, flops: 0, bytes: 0 },
    tokens: { parameters: vocabulary * d, flops: 2 * n * d * vocabulary, bytes: 0 },
  };
}

const times = (cost, count) =>
  Object.fromEntries(Object.entries(cost).map(([name, number]) => [name, number * count]));

/** The rows of the table: name, the boxes that belong to it, and the cost of all layers. */
function parts(now) {
  const { attention, network, norm, tokens } = costs(now);
  const N = now.layers;
  return [
    ["tokens and head", ["source_tokens", "target_tokens", "head"], tokens],
    ["encoder attention", ["encoder_attention"], times(attention, N)],
    ["encoder network", ["encoder_network"], times(network, N)],
    ["encoder norms", ["encoder_norm_1", "encoder_norm_2"], times(norm, 2 * N)],
    ["decoder attention", ["decoder_attention"], times(attention, N)],
    ["cross-attention", ["cross_attention"], times(attention, N)],
    ["decoder network", ["decoder_network"], times(network, N)],
    ["decoder norms", ["decoder_norm_1", "decoder_norm_2", "decoder_norm_3"], times(norm, 3 * N)],
  ];
}

function render({ model, el }) {
  const { h, mark, strong, line, short, attributes, sub, clamp } = shared;
  const KEYS = [...Object.keys(OPTIONS), "chosen"];
  const state = () => Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
  const whole = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
  const i = (text) => h("i", { class: "tl-letter" }, text);
  const megabytes = (bytes) => short(bytes / 1e6);

  // --------------------------------------------------------------------- the boxes

  const LEFT = 3, RIGHT = 163, WIDE = 134;
  // name, words, column, top, height
  const BOXES = [
    ["source_tokens", "source tokens", LEFT, 358, 30],
    ["source_positions", "+ positions", LEFT, 322, 26],
    ["encoder_attention", "self-attention", LEFT, 268, 30],
    ["encoder_norm_1", "add, norm", LEFT, 244, 21],
    ["encoder_network", "feed-forward", LEFT, 202, 30],
    ["encoder_norm_2", "add, norm", LEFT, 178, 21],
    ["target_tokens", "target tokens", RIGHT, 358, 30],
    ["target_positions", "+ positions", RIGHT, 322, 26],
    ["decoder_attention", "masked attention", RIGHT, 268, 30],
    ["decoder_norm_1", "add, norm", RIGHT, 244, 21],
    ["cross_attention", "cross-attention", RIGHT, 202, 30],
    ["decoder_norm_2", "add, norm", RIGHT, 178, 21],
    ["decoder_network", "feed-forward", RIGHT, 136, 30],
    ["decoder_norm_3", "add, norm", RIGHT, 112, 21],
    ["head", "scores", RIGHT, 60, 30],
  ];
  const NAMES = BOXES.map(([name]) => name);
  const LONG = {
    source_tokens: "source tokens", source_positions: "positions of the source",
    encoder_attention: "self-attention of the encoder", encoder_norm_1: "add, norm after self-attention, encoder",
    encoder_network: "feed-forward network of the encoder", encoder_norm_2: "add, norm after feed-forward, encoder",
    target_tokens: "target tokens", target_positions: "positions of the target",
    decoder_attention: "masked attention of the decoder", decoder_norm_1: "add, norm after self-attention, decoder",
    cross_attention: "cross-attention", decoder_norm_2: "add, norm after cross-attention, decoder",
    decoder_network: "feed-forward network of the decoder", decoder_norm_3: "add, norm after feed-forward, decoder",
    head: "scores of the next token",
  };

  const choose = (name) => shared.change(model, { chosen: name });
  const boxes = BOXES.map(([name, words, x, y, height]) => {
    const node = h("g", {
      role: "option", "aria-label": LONG[name], class: "tl-box", tabindex: -1,
      onclick: () => { choose(name); node.focus(); },
    },
    h("rect", { x, y, width: WIDE, height, rx: 6 }),
    h("text", { class: "tl-box-text", x: x + WIDE / 2, y: y + height / 2 + 5, "text-anchor": "middle" }, words));
    return node;
  });

  const depths = [LEFT, RIGHT].map((x) => h("text", { class: "tl-map-note", x: x + 2, y: 318 }));
  const path = (d, role = "") => h("path", { d, class: `tl-map-line ${role}` });
  const middle = [LEFT + WIDE / 2, RIGHT + WIDE / 2];
  const hidden = (text, x, y, role = "tl-map-note", anchor = "middle") =>
    h("text", { class: role, x, y, "text-anchor": anchor }, text);
  const map = h("svg", {
    class: "tl-model-map", viewBox: "0 20 300 392", role: "listbox", "aria-label": "parts of the model",
    onkeydown(event) {
      const at = NAMES.indexOf(model.get("chosen"));
      const [, , x, y] = BOXES[at];
      const across = () => {
        const others = NAMES.filter((_, k) => BOXES[k][2] !== x);
        const gap = (name) => Math.abs(BOXES[NAMES.indexOf(name)][3] - y);
        return NAMES.indexOf(others.reduce((best, name) => (gap(name) < gap(best) ? name : best)));
      };
      const last = NAMES.length - 1;
      const moves = {
        ArrowUp: () => clamp(at + 1, 0, last), ArrowDown: () => clamp(at - 1, 0, last),
        ArrowRight: () => (x === LEFT ? across() : at), ArrowLeft: () => (x === RIGHT ? across() : at),
        Home: () => 0, End: () => last,
        Escape: () => NAMES.indexOf(model.get("start").chosen),
      };
      if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const to = moves[event.key]();
      choose(NAMES[to]);
      boxes[to].focus();
    },
  },
  h("g", { "aria-hidden": "true" },
    h("rect", { class: "tl-map-frame", x: LEFT - 2, y: 170, width: WIDE + 4, height: 136, rx: 9 }),
    h("rect", { class: "tl-map-frame", x: RIGHT - 2, y: 104, width: WIDE + 4, height: 202, rx: 9 }),
    ...middle.map((x) => path(`M${x},358V348M${x},322V298M${x},268V265M${x},244V232M${x},202V199`)),
    path(`M${middle[1]},178V166M${middle[1]},136V133M${middle[1]},112V90M${middle[1]},60V44`),
    path(`M${middle[0]},178V160`),
    path(`M${middle[0]},160V128H150V217H${RIGHT - 8}`, "tl-map-memory"),
    path(`M${RIGHT - 8},212L${RIGHT - 1},217L${RIGHT - 8},222Z`, "tl-map-tip"),
    h("text", { class: "tl-map-note", x: 147, y: 121, "text-anchor": "end" },
      h("tspan", { class: "tl-map-keys" }, "K"), h("tspan", { class: "tl-map-note" }, ", "),
      h("tspan", { class: "tl-map-values" }, "V")),
    path(`M${middle[1]},244V232`, "tl-map-query"),
    hidden("Q", middle[1] + 10, 242, "tl-map-query-text"),
    hidden("softmax: next token", middle[1], 36),
    hidden("source", middle[0], 405), hidden("target so far", middle[1], 405),
    ...depths),
  ...boxes);

  // ------------------------------------------------------------------ the controls

  const option = (key, label, text = whole) => shared.slider(model, {
    label, min: 0, max: OPTIONS[key].length - 1, step: 1,
    read: () => OPTIONS[key].indexOf(model.get(key)),
    write: (at) => ({ [key]: OPTIONS[key][at] }),
    text: () => text(model.get(key)),
  });
  const sliders = [
    option("d_model", "width d"), option("num_heads", "heads"), option("layers", "layers of each stack"),
    option("vocabulary", "tokens in the table"), option("length", "length of source and target"),
  ];
  const preset = (words, values) =>
    h("button", { type: "button", class: "tl-button", onclick: () => shared.change(model, values) }, words);

  // --------------------------------------------------------------------- the table

  const count = parts(state()).length;
  const cells = Array.from({ length: count + 1 }, () => Array.from({ length: 3 }, () => h("td", {})));
  const rows = parts(state()).map(([name], k) => h("tr", {}, h("th", { scope: "row" }, name), ...cells[k]));
  const sums = h("tr", { class: "tl-sums" }, h("th", { scope: "row" }, "total"), ...cells[count]);
  const costTable = h("div", { class: "tl-cost tl-map-cost" }, h("table", {},
    h("caption", {}, "all layers together; MB of scores"),
    h("thead", {}, h("tr", {}, ...["part", "parameters", "FLOPs", "MB"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows, sums)));

  const told = shared.card(el, model, {
    name: "encoder_decoder",
    question: "Where is everything, and what does it cost?",
    instruction: "Choose a box by a click, or with Tab and the arrow keys. Then change the sizes.",
    parts: [
      h("div", { class: "tl-map-stage" }, map, costTable),
      h("div", { class: "tl-controls" }, ...sliders.map((one) => one.node),
        h("div", { class: "tl-control" }, preset("base, 2017", BASE), preset("big, 2017", BIG))),
    ],
    note: "The network is four times as wide as the model. FLOPs: one forward pass over one pair "
      + "of sequences, matrix products only. Scores: float32, if they are kept.",
  });

  // ------------------------------------------------------------------ what is told

  const dk = () => [i("d"), sub("k")];
  const heads = () => [
    "[", i("O"), sub("1"), " … ", i("O"), sub("h"), "] ", i("W"), sub("O"), ",  ",
    i("O"), sub("k"), " = softmax(", mark("query", i("Q")), mark("key", i("K")), "ᵀ / √", ...dk(), ") ", mark("value", i("V")),
  ];

  function story(now) {
    const { d_model: d, num_heads, layers, vocabulary, length: n, chosen } = now;
    const cost = costs(now);
    const product = (...sizes) => sizes.map(whole).join(" × ");
    const kinds = {
      tokens: ["2 and 9", [i("x"), " = √", i("d"), " · row of ", i("E")],
        `${whole(n)} numbers in, ${product(n, d)} out; E is ${product(vocabulary, d)}`, cost.tokens.parameters, 0, "one table in three places"],
      positions: ["4", [i("x"), " + ", i("p"), ",  sines and cosines of the place"],
        `${product(n, d)} in and out`, 0, 0, "nothing is learned"],
      attention: ["3 and 7", heads(),
        `Q, K, V: ${product(num_heads, n, d / num_heads)}; scores: ${product(num_heads, n, n)}`, cost.attention.parameters, cost.attention.flops, "per layer"],
      masked: ["6 and 7", [...heads(), ", later keys hidden"],
        `Q, K, V: ${product(num_heads, n, d / num_heads)}; scores: ${product(num_heads, n, n)}`, cost.attention.parameters, cost.attention.flops, "per layer"],
      cross: ["9", [...heads(), ";  ", mark("query", i("Q")), " from here, ", mark("key", i("K")), " and ", mark("value", i("V")), " from the last encoder layer"],
        `Q: ${product(num_heads, n, d / num_heads)} of the target; K, V: ${product(num_heads, n, d / num_heads)} of the source`, cost.attention.parameters, cost.attention.flops, "per layer"],
      norm: ["5 and 8", ["LayerNorm(", i("x"), " + ", i("F"), "(", i("x"), ")),  own ", i("γ"), " and ", i("β")],
        `${product(n, d)} in and out; γ and β: ${whole(d)} each`, cost.norm.parameters, 0, "per layer"],
      network: ["5", ["max(0, ", i("x W"), sub("1"), " + ", i("b"), sub("1"), ") ", i("W"), sub("2"), " + ", i("b"), sub("2")],
        `${product(n, d)} in and out, ${product(n, 4 * d)} inside`, cost.network.parameters, cost.network.flops, "per layer"],
      head: ["9", ["logits = ", i("y E"), "ᵀ,  then softmax"],
        `${product(n, d)} in, ${product(n, vocabulary)} out`, 0, cost.tokens.flops, "the table is counted where tokens enter"],
    };
    const kind = chosen.includes("norm") ? "norm" : chosen.includes("network") ? "network"
      : chosen.includes("tokens") ? "tokens" : chosen.includes("positions") ? "positions"
        : { head: "head", cross_attention: "cross", decoder_attention: "masked" }[chosen] ?? "attention";
    const [chapter, formula, shapes, parameters, flops, remark] = kinds[kind];
    const perLayer = remark === "per layer";
    return [
      line(strong(LONG[chosen]), mark("muted", `  ${chapter.includes("and") ? "chapters" : "chapter"} ${chapter}`)),
      line(...formula),
      line(shapes),
      line(strong(whole(parameters)), " parameters, ", strong(short(flops)), " FLOPs",
        mark("muted", perLayer ? `  in each of ${layers} ${layers === 1 ? "layer" : "layers"}` : `  ${remark}`)),
    ];
  }

  // ----------------------------------------------------------------------- drawing

  function draw() {
    const now = state();
    BOXES.forEach(([name], k) => {
      const here = name === now.chosen;
      attributes(boxes[k], { "aria-selected": here, tabindex: here ? 0 : -1 });
    });
    for (const depth of depths) depth.textContent = now.layers === 1 ? "1 layer" : `${now.layers} layers`;
    const list = parts(now);
    const total = { parameters: 0, flops: 0, bytes: 0 };
    list.forEach(([, members, cost], k) => {
      for (const key of Object.keys(total)) total[key] += cost[key];
      const texts = [whole(cost.parameters), short(cost.flops), megabytes(cost.bytes)];
      cells[k].forEach((cell, j) => { cell.textContent = texts[j]; });
      rows[k].classList.toggle("tl-here", members.includes(now.chosen));
    });
    const texts = [whole(total.parameters), short(total.flops), megabytes(total.bytes)];
    cells[count].forEach((cell, j) => { cell.textContent = texts[j]; });
    for (const one of sliders) one.draw();
    told.replaceChildren(...story(now));
  }

  return shared.watch(model, draw);
}

export default { render };
