/* Brings the widgets of a page to life without a kernel.
 *
 * The script of each widget puts its module into the registry:
 *     window.courseWidgets[name] = { render }
 * `render({ model, el })` is the interface of anywidget, so that one source runs here, in
 * JupyterLab, in VS Code and in Colab. What the module needs of a model is below. The
 * scripts may stand in any order; all of them run before DOMContentLoaded. */
(() => {
  "use strict";
  const registry = (window.courseWidgets ??= {});
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  function makeModel(state) {
    const values = { ...state, start: JSON.parse(JSON.stringify(state)) };
    const listeners = new Map();
    const tell = (event) => [...(listeners.get(event) ?? [])].forEach((call) => call());
    return {
      get: (key) => values[key],
      set(key, value) {
        const given = typeof key === "object" ? key : { [key]: value };
        const changed = Object.keys(given).filter((name) => !same(values[name], given[name]));
        for (const name of changed) values[name] = given[name];
        for (const name of changed) tell(`change:${name}`);
        if (changed.length) tell("change");
      },
      on(event, call) {
        if (!listeners.has(event)) listeners.set(event, new Set());
        listeners.get(event).add(call);
      },
      off: (event, call) => listeners.get(event)?.delete(call),
      save_changes() {},
    };
  }

  /* The static view stays in place if anything goes wrong. */
  function mount(still) {
    const name = still.dataset.widget;
    try {
      const module = registry[name];
      if (!module) throw new Error("its script is not on this page");
      const live = still.cloneNode(false);
      module.render({ model: makeModel(JSON.parse(still.dataset.state)), el: live });
      still.replaceWith(live);
    } catch (error) {
      still.classList.add("tl-still");
      console.error(`The widget "${name}" stays still:`, error);
    }
  }

  const mountAll = () =>
    document.querySelectorAll("[data-widget][data-state]:not(.tl-live)").forEach(mount);
  if (document.readyState === "loading")
    document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
