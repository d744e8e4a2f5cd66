/* Beam: a beam search over the recorded tree of a model, step by step. */

const MAX_LEN = 20;
const MOST_STEPS = 11;
const SOUNDS = {
  일: "il", 이: "i", 삼: "sam", 사: "sa", 오: "o", 육: "yuk", 칠: "chil", 팔: "pal",
  구: "gu", 십: "sip", 백: "baek", 천: "cheon", 만: "man",
};
const romanised = (text) => [...text].map((syllable) => SOUNDS[syllable]).join(" ");
const ended = (text) => text.endsWith(".");
const bare = (text) => text.replace(".", "");

/** The steps of the search: for each the hypotheses that it kept, likeliest first. */
function walk(following, beamSize, lengthPenalty) {
  const norm = (length) => ((5 + length) / 6) ** lengthPenalty;
  const steps = [];
  const scores = [];
  let before = [{ text: "", total: 0, state: "open" }];
  while (before.some((one) => one.state === "open")) {
    const length = steps.length + 1;
    const extended = before.flatMap((one, parent) => (one.state !== "open" ? []
      : following[one.text].map(([token, p]) => ({ text: one.text + token, total: one.total + p, parent }))));
    extended.sort((a, b) => b.total - a.total);
    const kept = extended.slice(0, beamSize - scores.length);
    for (const { text, total } of kept) if (ended(text)) scores.push(total / norm(length));
    const best = Math.max(...scores);
    before = kept.map((one) => {
      const finished = ended(one.text);
      const score = one.total / norm(finished ? length : MAX_LEN);
      const state = finished ? "finished" : score <= best ? "given up" : "open";
      return { ...one, score, state };
    });
    steps.push(before);
  }
  return steps;
}

function render({ model, el }) {
  const { h, mark, strong, line, fixed, attributes } = shared;
  const trees = model.get("trees");

  // --------------------------------------------------------------------- the tree

  const ROW = 46;
  const ABOVE = 26;
  const HEIGHT = ABOVE + 4 * ROW + 4;
  let width = 640;
  const tree = h("svg", { class: "tl-beam", height: HEIGHT, "aria-hidden": "true" });

  function drawTree(steps, taken) {
    attributes(tree, { viewBox: `0 0 ${width} ${HEIGHT}` });
    const column = Math.min(62, (width - 4) / steps.length);
    const box = Math.min(30, column - 5);
    const x = (t) => 2 + column * t + column / 2;
    const y = (place) => ABOVE + ROW * place + ROW / 2;
    // A hypothesis lives on if something that was kept at the last step comes from it,
    // or if it is finished.
    const lives = steps.slice(0, taken).map((rows) => rows.map((one) => one.state === "finished"));
    lives[taken - 1] = steps[taken - 1].map((one) => one.state !== "given up");
    for (let t = taken - 1; t > 0; t -= 1)
      steps[t].forEach((one, place) => { if (lives[t][place]) lives[t - 1][one.parent] = true; });
    const lines = [];
    const nodes = [];
    steps.forEach((rows, t) => {
      nodes.push(h("text", { class: "tl-plot-text", x: x(t), y: 15, "text-anchor": "middle" }, `${t + 1}`));
      if (t >= taken) return;
      rows.forEach((one, place) => {
        const kind = !lives[t][place] ? "dead" : one.state === "finished" ? "finished" : "open";
        if (t > 0)
          lines.push(h("line", { class: `tl-beam-line tl-beam-${kind}`, x1: x(t - 1) + box / 2,
            y1: y(one.parent) - 2, x2: x(t) - box / 2, y2: y(place) - 2 }));
        const last = [...one.text].pop();
        nodes.push(h("rect", { class: `tl-beam-box tl-beam-${kind}`, x: x(t) - box / 2,
          y: y(place) - 16, width: box, height: 28, rx: 6 }));
        nodes.push(h("text", { class: `tl-beam-text tl-beam-text-${kind}`, x: x(t),
          y: y(place) + (last === "." ? 2 : 3.5), "text-anchor": "middle",
          "font-size": last === "." ? 11 : 16 }, last === "." ? "end" : last));
        if (last !== ".")
          nodes.push(h("text", { class: "tl-plot-text", x: x(t), y: y(place) + 24, "text-anchor": "middle",
            "font-size": column < 32 ? 9 : 11 }, SOUNDS[last]));
      });
    });
    tree.replaceChildren(...lines, ...nodes);
  }

  // ------------------------------------------------------------------- hypotheses

  const rows = [0, 1, 2, 3].map(() => {
    const said = h("th", { scope: "row" });
    const cells = [0, 1, 2].map(() => h("td", {}));
    return { said, cells, node: h("tr", {}, said, ...cells) };
  });
  const list = h("table", { class: "tl-hypotheses" },
    h("thead", {}, h("tr", {}, ...["hypothesis", "log-prob.", "score", "state"].map(
      (name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => row.node)));

  /** Finished ones of all steps so far, then those kept at the last step taken. */
  function hypotheses(steps, taken) {
    const done = steps.slice(0, taken).flat().filter((one) => one.state === "finished");
    done.sort((a, b) => b.score - a.score);
    return [...done, ...steps[taken - 1].filter((one) => one.state !== "finished")];
  }

  // ------------------------------------------------------------------ the controls

  const select = h("select", { class: "tl-select",
    onchange: () => shared.change(model, { heard: Number(select.value) }) },
    ...trees.map((one, i) => h("option", { value: i }, one.heard)));
  const number = (label, key, min, max, step, digits, text) => shared.slider(model, {
    label, min, max, step,
    read: () => model.get(key),
    write: (value) => ({ [key]: Number(value.toFixed(digits)) }),
    text: text ?? (() => fixed(model.get(key), digits)),
  });
  let shownStep = "";
  const sliders = [
    number("step", "step", 1, MOST_STEPS, 1, 0, () => shownStep),
    number("beam size", "beam_size", 1, 4, 1, 0),
    number("length penalty", "length_penalty", 0, 2, 0.1, 1),
  ];

  const told = shared.card(el, model, {
    name: "decoding",
    question: "Which beginnings survive?",
    instruction: "Choose what was heard, then take one step after the other.",
    parts: [
      h("div", { class: "tl-controls" },
        h("div", { class: "tl-control" }, h("label", {}, h("span", {}, "heard"), select))),
      tree,
      h("div", { class: "tl-controls" }, ...sliders.map((slider) => slider.node)),
      list,
    ],
    note: "Recorded from the chapter's model. Pale boxes have no descendant left. The score of an unfinished hypothesis is the most that it can still reach.",
  });

  function draw() {
    const now = trees[model.get("heard")];
    const steps = walk(now.next, model.get("beam_size"), model.get("length_penalty"));
    const taken = Math.min(model.get("step"), steps.length);
    shownStep = `${taken} of ${steps.length}`;
    select.value = model.get("heard");
    sliders.forEach((slider) => slider.draw());
    drawTree(steps, taken);
    const shown = hypotheses(steps, taken);
    rows.forEach(({ said, cells }, i) => {
      const one = shown[i];
      said.replaceChildren(...(one ? [bare(one.text), " ", mark("muted", romanised(bare(one.text)))] : ["\u2013"]));
      const finished = one?.state === "finished";
      const texts = one
        ? [fixed(one.total, 2), `${finished ? "" : "≤ "}${fixed(one.score, 2)}`, one.state]
        : ["", "", ""];
      cells.forEach((cell, k) => cell.replaceChildren(texts[k]));
    });
    const open = shown.filter((one) => one.state === "open").length;
    const done = shown.filter((one) => one.state === "finished");
    const parts = [line(strong(`step ${taken} of ${steps.length}`), `: ${open} open, ${done.length} finished`)];
    const best = done[0];
    if (!best) parts.push(line("nothing is finished yet"));
    else {
      const text = bare(best.text);
      const right = now.fits.includes(text);
      parts.push(line(open ? "best so far: " : "answer: ", strong(text), ` (${romanised(text)}), ${right ? "fits" : "does not fit"} what was heard`));
    }
    told.replaceChildren(...parts);
  }

  const stop = shared.onWidth(tree, (now) => {
    width = now;
    draw();
  });
  const unwatch = shared.watch(model, draw);
  return () => { stop(); unwatch(); };
}

export default { render };
