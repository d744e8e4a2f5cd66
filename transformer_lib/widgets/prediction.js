/* Prediction: say what you expect before you see it, with one click. */

const LONG = 60; // letters of all options together that do not fit side by side

/** The reader's guess, kept in the browser; without storage it lasts as long as the page. */
function memory(label) {
  const key = `transformer-lib:prediction:${label}`;
  const attempt = (action) => {
    try {
      return action(window.localStorage);
    } catch {
      return null; // private windows and sandboxed frames refuse
    }
  };
  return {
    read: () => attempt((storage) => storage.getItem(key)),
    write: (text) => attempt((storage) => storage.setItem(key, text)),
    clear: () => attempt((storage) => storage.removeItem(key)),
  };
}

function render({ model, el }) {
  const { h, strong, mark } = shared;
  const [label, question, options, answer, because] =
    ["label", "question", "options", "answer", "because"].map((key) => model.get(key));
  const kept = memory(label);
  const guess = (choice) => {
    if (model.get("choice") >= 0) return;
    kept.write(options[choice]);
    shared.change(model, { choice });
  };

  const flags = options.map(() => h("span", { class: "tl-measured" }));
  const choices = options.map((option, i) =>
    h("div", { role: "radio", class: "tl-choice", onclick: () => guess(i) },
      h("span", {}, option, flags[i])));
  const group = h("div", {
    role: "radiogroup", "aria-label": question,
    class: `tl-choices${options.join("").length > LONG ? " tl-stacked" : ""}`,
    onkeydown(event) {
      const i = choices.indexOf(event.target);
      if (i < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      // Arrows only move: the guess is one deliberate press.
      if (by) choices[(i + by + choices.length) % choices.length].focus();
      else if (event.key === " " || event.key === "Enter") guess(i);
      else return;
      event.preventDefault();
    },
    onfocusin(event) {
      choices.forEach((choice) => { choice.tabIndex = choice === event.target ? 0 : -1; });
    },
  }, ...choices);

  const told = shared.card(el, model, {
    name: "prediction",
    question,
    instruction: "Your guess, before you look. One click; it stays in this browser.",
    parts: [group],
    reset: {
      text: "Clear my guess",
      act() {
        kept.clear();
        shared.change(model, { choice: -1 });
        choices[0].focus();
      },
    },
  });
  const clear = el.querySelector(".tl-reset");
  el.append(clear); // below what it clears

  const before = options.indexOf(kept.read());
  if (before >= 0 && model.get("choice") < 0) shared.change(model, { choice: before });

  choices.forEach((choice, i) => { choice.tabIndex = i ? -1 : 0; });
  return shared.watch(model, () => {
    const choice = model.get("choice");
    const made = choice >= 0;
    choices.forEach((node, i) => {
      shared.attributes(node, { "aria-checked": i === choice, "aria-disabled": made });
      flags[i].textContent = made && i === answer ? "measured" : "";
    });
    clear.hidden = !made;
    told.replaceChildren(...(made
      ? [h("div", {}, mark("muted", "You said: "), strong(options[choice])),
        h("div", {}, mark("muted", "Measured: "), strong(options[answer])),
        ...(because ? [h("div", {}, because)] : [])]
      : []));
  });
}

export default { render };
