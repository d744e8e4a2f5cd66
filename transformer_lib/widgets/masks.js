/* MaskBuilder: who may see whom, cell by cell, and where the rule is broken. */

const HOW = ["\u2212∞ before the softmax", "score times 0", "0 after the softmax"];

/** Rule, mask, weights, leaks, and who has anything of whom after two layers. */
function build({ scores, causal, length, how, flips }) {
  const rule = scores.map((row, i) => row.map((_, j) => j < length && (!causal || j <= i)));
  const mask = rule.map((row, i) => row.map((open, j) => open !== Boolean(flips[i][j])));
  const weights = scores.map((row, i) => {
    const seen = mask[i];
    if (how === HOW[1]) return shared.softmax(row.map((s, j) => (seen[j] ? s : 0)));
    if (how === HOW[2]) return shared.softmax(row).map((a, j) => (seen[j] ? a : 0));
    const open = row.filter((_, j) => seen[j]);
    const some = open.length ? shared.softmax(open) : [];
    let next = 0;
    return row.map((_, j) => (seen[j] ? some[next++] : 0));
  });
  const leaks = weights.map((row, i) => row.map((a, j) => a > 0 && !rule[i][j]));
  const kept = weights.map((row, i) => row.map((a, j) => a > 0 || i === j));
  const reach = kept.map((row) => row.map((_, j) => row.some((on, k) => on && kept[k][j])));
  return { rule, mask, weights, leaks, reach };
}

function render({ model, el }) {
  const { h, mark, strong, sup, line, joined, fixed } = shared;
  const keys = ["scores", "causal", "length", "how", "flips"];
  const state = () => Object.fromEntries(keys.map((key) => [key, model.get(key)]));
  const tokens = model.get("tokens");
  const n = tokens.length;
  const whole = (x) => String(x).replace("-", shared.MINUS);
  const named = (i) => (i < model.get("length") ? tokens[i] : "pad");

  // -------------------------------------------------------------------- the cells

  const grid = shared.matrix({
    name: "weights, row asks column", rows: tokens, columns: tokens, role: "ink",
    showColumns: true, choose: (i, j) => shared.change(model, { chosen: [i, j] }),
  });
  const cells = [...grid.node.querySelectorAll('[role="gridcell"]')];
  const rowNames = [...grid.node.querySelectorAll('[role="rowheader"]')];
  const columnNames = [...grid.node.querySelectorAll('[role="columnheader"]')].slice(1);
  columnNames.forEach((name) => name.classList.add("tl-key"));
  rowNames.forEach((name) => name.classList.add("tl-query"));

  function flip(i, j) {
    const flips = shared.copy(model.get("flips"));
    flips[i][j] = 1 - flips[i][j];
    shared.change(model, { flips, chosen: [i, j] });
  }
  const flipAt = (node) => {
    const at = cells.indexOf(node);
    if (at >= 0) flip(Math.floor(at / n), at % n);
    return at >= 0;
  };
  grid.node.addEventListener("click", (event) => flipAt(event.target));
  grid.node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.key === " " || event.key === "Enter") && flipAt(event.target))
      event.preventDefault();
    if (event.key === "Escape") {
      shared.change(model, { flips: shared.copy(model.get("start").flips) });
      event.preventDefault();
    }
  });

  const stage = h("div", { class: "tl-mask-stage" },
    h("div", { class: "tl-title", "aria-hidden": "true" },
      mark("query", "rows ask"), ", ", mark("key", "columns answer")),
    grid.node);

  // ----------------------------------------------------------------- the controls

  const causal = h("input", { type: "checkbox",
    onchange: () => shared.change(model, { causal: causal.checked }) });
  const length = shared.slider(model, {
    label: "real tokens", min: 1, max: n, step: 1,
    read: () => model.get("length"),
    write: (x) => ({ length: x }),
    text: () => String(model.get("length")),
  });
  const how = h("select", { class: "tl-select",
    onchange: () => shared.change(model, { how: how.value }) },
    ...HOW.map((way) => h("option", { value: way }, way)));
  const controls = h("div", { class: "tl-controls" },
    h("div", { class: "tl-control" },
      h("label", {}, causal, h("span", {}, "hide what comes later"))),
    length.node,
    h("div", { class: "tl-control" }, h("label", {}, h("span", {}, "hidden by"), how)));

  // ------------------------------------------------------- the arithmetic of one cell

  const power = (s) => ["e", sup(whole(s))];

  function row(i, j, now, found) {
    const seen = found.mask[i];
    const scores = now.scores[i];
    if (now.how === HOW[0]) {
      if (!seen.some(Boolean)) return ["nothing to see: all weights 0, output 0"];
      if (!seen[j]) return ["weight = e", sup(`${shared.MINUS}∞`), " / … = 0"];
      const open = scores.filter((_, k) => seen[k]);
      return ["weight = ", ...power(scores[j]), " / (", ...joined(open.map(power), " + "), ") = ",
        fixed(found.weights[i][j], 3)];
    }
    const used = now.how === HOW[1] ? scores.map((s, k) => (seen[k] ? s : 0)) : scores;
    const share = ["weight = ", ...power(used[j]), " / (", ...joined(used.map(power), " + "), ")"];
    if (now.how === HOW[2] && !seen[j]) return [...share, " · 0 = 0"];
    return [...share, " = ", fixed(found.weights[i][j], 3)];
  }

  function reason(i, j, now, found) {
    if (found.rule[i][j]) return "the rule lets it look";
    if (j >= now.length) return "padding: the rule hides it";
    return "comes later: the rule hides it";
  }

  function story(i, j, now, found) {
    const open = found.mask[i][j] ? "open" : "hidden";
    const total = shared.sum(found.weights[i]);
    const count = found.leaks.flat().filter(Boolean).length;
    const later = found.reach.flatMap((reached, a) =>
      reached.filter((on, b) =>
        !found.rule[a][b] && (found.leaks[a][b] || (on && a !== b)))).length;
    const blind = found.mask.flat().filter((on, at) =>
      !on && found.rule[Math.floor(at / n)][at % n]).length;
    const leaks = count === 1 ? "1 leak" : `${count} leaks`;
    return [
      line(strong(mark("query", named(i))), " asks ", strong(mark("key", named(j))),
        `, score ${whole(now.scores[i][j])}: ${open}. ${reason(i, j, now, found)}.`),
      line(...row(i, j, now, found)),
      line(`this row sums to ${fixed(total, 3)}`),
      line(strong(leaks), count ? `; after two layers ${later} pairs know what the rule hides` : "",
        blind ? `; ${blind} closed that the rule leaves open` : ""),
    ];
  }

  // --------------------------------------------------------------------- drawing

  const told = shared.card(el, model, {
    name: "masks",
    question: "Who may see whom?",
    instruction: "Click a cell, or choose it with the arrows and press Space, to open or close it. A dashed frame marks a leak.",
    parts: [stage, controls],
  });

  return shared.watch(model, () => {
    const now = state();
    const found = build(now);
    const [i, j] = model.get("chosen");
    grid.draw({
      texts: found.weights.map((weights, a) => weights.map((x, b) =>
        (x > 0 || found.mask[a][b] ? fixed(x, 2) : "·"))),
      chosen: [i, j],
      source: (a, b) => a === i && found.weights[a][b] > 0,
      shades: found.weights.map((weights) => weights.map((x) => shared.shade("weights", x))),
    });
    cells.forEach((cell, at) => {
      const [a, b] = [Math.floor(at / n), at % n];
      cell.classList.toggle("tl-leak", found.leaks[a][b]);
      const heard = found.leaks[a][b] ? "a leak" : found.weights[a][b] > 0 || found.mask[a][b] ? "" : "hidden";
      if (heard) cell.append(h("span", { class: "tl-hidden" }, ` ${heard}`));
    });
    rowNames.forEach((name, a) => { name.textContent = named(a); });
    columnNames.forEach((name, b) => { name.textContent = named(b); });
    causal.checked = now.causal;
    how.value = now.how;
    length.draw();
    told.replaceChildren(...story(i, j, now, found));
  });
}

export default { render };
