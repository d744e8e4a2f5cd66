/* What all widgets share: arithmetic, numbers as text, colours, and the parts of a card.
 * A plain script with one constant, so that it can stand before a widget's module
 * (Jupyter), inside a page's script (the book), or alone (node, in the tests). */
const shared = (() => {
  "use strict";

  // ------------------------------------------------------------------ arithmetic

  const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);
  const dot = (a, b) => sum(a.map((x, i) => x * b[i]));
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));
  const matmul = (A, B) => {
    const columns = transpose(B);
    return A.map((row) => columns.map((column) => dot(row, column)));
  };

  function softmax(scores) {
    const highest = Math.max(...scores);
    const numerators = scores.map((s) => Math.exp(s - highest));
    const total = sum(numerators);
    return numerators.map((x) => x / total);
  }

  const entropy = (weights) => -sum(weights.map((w) => (w > 0 ? w * Math.log(w) : 0))) + 0;

  const sigmoid = (a) =>
    a >= 0 ? 1 / (1 + Math.exp(-a)) : Math.exp(a) / (1 + Math.exp(a));

  // ------------------------------------------------------------- numbers as text

  const MINUS = "\u2212";
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  /** `digits` decimals, a real minus sign, no minus zero. */
  function fixed(x, digits) {
    const text = x.toFixed(digits);
    return Number(text) === 0 ? text.replace("-", "") : text.replace("-", MINUS);
  }

  const superscript = (n) =>
    String(n).replace("-", "⁻").replace(/\d/g, (digit) => SUPERSCRIPTS[digit]);

  /** Two significant digits, as a reader would write them on paper. */
  function short(x) {
    if (x === 0) return "0";
    const [digits, exponent] = x.toExponential(1).split("e");
    const power = Number(exponent);
    if (power >= -4 && power < 3)
      return fixed(Number(x.toExponential(1)), Math.max(0, 1 - power));
    return `${digits}·10${superscript(power)}`.replace("-", MINUS);
  }

  /** As few decimals as the number needs, three at most. */
  const plain = (x) => fixed(x, 3).replace(/\.?0+$/, "");

  // --------------------------------------------------------------------- colours

  const palette = {
    light: {
      ground: "#ffffff", ink: "#1b2230", muted: "#566072", line: "#d3dae4",
      panel: "#f7f9fb", query: "#0b62a8", key: "#b4470b", value: "#0a7a56",
      output: "#8a3fa0", weight: "#3d83bd", negative: "#b4470b", positive: "#0b62a8",
    },
    dark: {
      ground: "#121519", ink: "#e8ecf2", muted: "#a3adbb", line: "#39424f",
      panel: "#191e25", query: "#6cb6f5", key: "#f5a35c", value: "#4fd1a5",
      output: "#d79bea", weight: "#4d97d3", negative: "#f5a35c", positive: "#6cb6f5",
    },
  };

  // The light ramps are those of the figures (transformer_lib.plotting); a test compares.
  const ramps = {
    light: {
      weights: ["#ffffff", "#cfe0ef", "#7fb0d8", "#2f78b4", "#0b4f8a"],
      signed: ["#b4470b", "#e6a277", "#f6f6f6", "#7fb0d8", "#0b62a8"],
    },
    dark: {
      weights: ["#121519", "#1b3248", "#27567d", "#4d97d3", "#9ccfff"],
      signed: ["#f5a35c", "#8f5a2c", "#20262e", "#2f618c", "#6cb6f5"],
    },
  };

  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  function ramp(stops, share) {
    const place = clamp(share, 0, 1) * (stops.length - 1);
    const i = Math.min(Math.floor(place), stops.length - 2);
    const [from, to] = [channels(stops[i]), channels(stops[i + 1])];
    const mixed = from.map((c, k) => Math.round(c + (to[k] - c) * (place - i)));
    return `#${mixed.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
  }

  function luminance(hex) {
    const [r, g, b] = channels(hex).map((c) =>
      c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  /** The text colour for a ground: the theme's ink where it reads, else white or black. */
  function textOn(ground, theme) {
    const ink = palette[theme].ink;
    if (contrast(ink, ground) >= 5) return ink;
    return contrast("#ffffff", ground) >= contrast("#000000", ground) ? "#ffffff" : "#000000";
  }

  /** Ground and text of a cell in both themes. `share`: 0 to 1, signed ramps 0.5 = zero. */
  function shade(kind, share) {
    const made = {};
    for (const theme of ["light", "dark"]) {
      const ground = ramp(ramps[theme][kind], share);
      made[theme] = { ground, text: textOn(ground, theme) };
    }
    return made;
  }

  // ------------------------------------------------------------------------ nodes

  const SVG = new Set(["svg", "g", "path", "line", "circle", "text", "tspan", "rect"]);

  /** An element: attributes by name, `on...` as listeners, children nodes or texts. */
  function h(tag, attributes = {}, ...children) {
    const node = SVG.has(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat());
    return node;
  }

  function attributes(node, values) {
    for (const [name, value] of Object.entries(values)) node.setAttribute(name, value);
  }

  /** A piece of text in the colour of its role: query, key, value, output, muted. */
  const mark = (role, ...text) => h("span", { class: `tl-${role}` }, ...text);
  const strong = (...text) => h("b", {}, ...text);
  const sup = (text) => h("sup", {}, text);
  const sub = (text) => h("sub", {}, text);
  const line = (...parts) => h("div", { class: "tl-sum" }, ...parts);

  /** Parts with a separator between each two. */
  const joined = (parts, separator) =>
    parts.flatMap((part, i) => (i ? [separator, part] : [part])).flat();

  // ------------------------------------------------------------------------ model

  const copy = (value) => JSON.parse(JSON.stringify(value));

  function change(model, values) {
    model.set(values);
    model.save_changes();
  }

  /** Draw now and after every change; returns what stops it. */
  function watch(model, draw) {
    model.on("change", draw);
    draw();
    return () => model.off("change", draw);
  }

  // ----------------------------------------------------------------------- a card

  /** Fill `el`: question, instruction, reset, then the given parts and the told line. */
  function card(el, model, { name, question, instruction, parts, note, reset }) {
    el.classList.add("tl-widget", "tl-live");
    el.dataset.widget = name;
    attributes(el, { role: "group", "aria-label": question });
    // JupyterLab would take the arrow keys for its cells.
    el.addEventListener("keydown", (event) => event.stopPropagation());
    const told = h("div", { class: "tl-told", role: "status", "aria-live": "polite" });
    const button = h("button", {
      type: "button",
      class: "tl-button tl-reset",
      onclick: reset?.act ?? (() => change(model, copy(model.get("start")))),
    }, reset?.text ?? "Reset");
    el.replaceChildren(
      h("div", { class: "tl-head" }, h("div", { class: "tl-question" }, question), button),
      h("div", { class: "tl-instruction" }, instruction),
      ...parts,
      told,
      ...(note ? [h("div", { class: "tl-note" }, note)] : []));
    return told;
  }

  /** A labelled range input. `write` turns its position into state, `read` back. */
  function slider(model, { label, min, max, step, read, write, text, ends }) {
    const input = h("input", {
      type: "range", min, max, step,
      oninput: () => change(model, write(Number(input.value))),
    });
    const number = h("span", { class: "tl-number", "aria-hidden": "true" });
    const node = h("div", { class: "tl-control tl-slider" },
      h("label", {}, h("span", {}, label), input), number,
      ends ? h("span", { class: "tl-ends" }, ...ends.map((end) => h("span", {}, end))) : "");
    return {
      node,
      draw() {
        const shown = text();
        input.value = read();
        input.setAttribute("aria-valuetext", shown);
        number.textContent = shown;
      },
    };
  }

  /** Minus and plus around a number, for fingers and mice. */
  function stepper({ label, step }) {
    const name = h("span", {});
    const number = h("span", { class: "tl-number" });
    const button = (words, by) =>
      h("button", { type: "button", class: `tl-button tl-${by < 0 ? "less" : "more"}`,
        onclick: () => step(by) }, h("span", { class: "tl-hidden" }, words));
    const [less, more] = [button("minus 1", -1), button("plus 1", 1)];
    const node = h("div", { class: "tl-control tl-stepper", role: "group",
      "aria-label": label }, name, less, number, more);
    return {
      node,
      draw(title, text) {
        name.replaceChildren(...title);
        number.textContent = text ?? "\u2013";
        less.disabled = more.disabled = text === null;
      },
    };
  }

  // The keys that change the chosen number, as a step or as a digit to write.
  const STEPS = { "+": 1, "=": 1, "-": -1, "_": -1, [MINUS]: -1 };

  /**
   * A matrix whose cells can be chosen: Tab to it, arrows inside it.
   * `choose(i, j)`, and if its numbers can be edited `step(by)`, `digit(n)`, `reset()`.
   */
  function matrix({ name, rows, columns, showColumns, hideNames, role, choose, edit }) {
    const cells = rows.map((row, i) =>
      columns.map((column, j) =>
        h("div", { role: "gridcell", class: `tl-cell${edit ? " tl-edit" : ""}`,
          tabindex: -1, onfocus: () => choose(i, j),
          onclick: () => cells[i][j].focus() })));
    const focus = (i, j) =>
      cells[clamp(i, 0, rows.length - 1)][clamp(j, 0, columns.length - 1)].focus();
    const headings = columns.map((column) =>
      h("div", { role: "columnheader", class: showColumns ? "tl-column" : "tl-hidden" }, column));
    const node = h("div", {
      role: "grid", "aria-label": name,
      class: `tl-grid tl-${role}${hideNames ? " tl-bare" : ""}`,
      style: `--columns:${columns.length}`,
      onkeydown(event) {
        const i = cells.findIndex((row) => row.includes(event.target));
        if (i < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
        const j = cells[i].indexOf(event.target);
        const moves = {
          ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1],
          ArrowRight: [i, j + 1], Home: [i, 0], End: [i, columns.length - 1],
        };
        if (moves[event.key]) focus(...moves[event.key]);
        else if (edit && STEPS[event.key]) edit.step(STEPS[event.key]);
        else if (edit && /^\d$/.test(event.key)) edit.digit(Number(event.key));
        else if (edit && event.key === "Escape") edit.reset();
        else return;
        event.preventDefault();
      },
    },
    h("div", { role: "row", class: "tl-row" },
      h("div", { role: "columnheader", class: showColumns ? "tl-corner" : "tl-hidden" },
        h("span", { class: "tl-hidden" }, name)),
      ...headings),
    ...rows.map((row, i) =>
      h("div", { role: "row", class: "tl-row" },
        h("div", { role: "rowheader", class: hideNames ? "tl-hidden" : "tl-name" }, row),
        ...cells[i])));
    return {
      node,
      /** `texts` of the cells; `chosen` [i, j] or null; `source(i, j)`; `shades` or null. */
      draw({ texts, chosen, source, shades }) {
        const at = chosen ?? [0, 0];
        cells.forEach((row, i) => row.forEach((cell, j) => {
          cell.textContent = texts[i][j];
          cell.dataset.size = Math.min(texts[i][j].length, 6); // long ones get smaller
          cell.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
          cell.setAttribute("aria-selected", Boolean(chosen) && cell.tabIndex === 0);
          cell.classList.toggle("tl-source", Boolean(source && source(i, j)));
          if (shades) paint(cell, shades[i][j]);
        }));
      },
    };
  }

  /** Give a node the ground and text colours of `shade`, for both themes. */
  function paint(node, { light, dark }) {
    node.classList.add("tl-shaded");
    node.style.setProperty("--light", light.ground);
    node.style.setProperty("--light-text", light.text);
    node.style.setProperty("--dark", dark.ground);
    node.style.setProperty("--dark-text", dark.text);
  }

  /**
   * Call `move(event)` while a pointer is dragged over `node`, and where it is clicked.
   * A finger may also want to scroll the page: it drags only from the `grip`, if there is
   * one, and else once the browser has left the movement to us (CSS touch-action).
   */
  function draggable(node, { move, grip, start = () => {}, ignore = () => false }) {
    let held = null;
    node.addEventListener("pointerdown", (event) => {
      const touch = event.pointerType === "touch";
      if (event.button !== 0 || ignore(event.target)) return;
      if (touch && grip && event.target !== grip) return;
      held = event.pointerId;
      node.setPointerCapture(held);
      if (touch) return;
      if (grip) event.preventDefault(); // focus goes where `start` puts it
      start();
      move(event);
    });
    node.addEventListener("pointermove", (event) => {
      if (event.pointerId === held) move(event);
    });
    // Keeps the page still under the grip; touch-action does not reach parts of an SVG.
    grip?.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    for (const end of ["pointerup", "pointercancel"])
      node.addEventListener(end, () => { held = null; });
    node.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || ignore(event.target)) return;
      start();
      move(event);
    });
  }

  /** Call `draw(width)` now and whenever the node's width changes; returns what stops it. */
  function onWidth(node, draw) {
    let last = 0;
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width && width !== last) draw((last = width));
    });
    observer.observe(node);
    return () => observer.disconnect();
  }

  return {
    sum, dot, clamp, transpose, matmul, softmax, entropy, sigmoid,
    MINUS, STEPS, fixed, superscript, short, plain,
    palette, ramps, ramp, luminance, contrast, textOn, shade, paint,
    h, attributes, mark, strong, sup, sub, line, joined,
    copy, change, watch, card, slider, stepper, matrix, draggable, onWidth,
  };
})();
