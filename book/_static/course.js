/* Small services of every page. Loaded in the head, before the theme's own scripts. */
"use strict";

/* Opened from disk, a search result cannot fetch its page for a summary: ask for none. */
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS === "object")
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

document.addEventListener("DOMContentLoaded", () => {
  /* What scrolls sideways can be reached and moved by keyboard, and says what it is. */
  const scrollers = [
    ["div.math, span.math.tl-long", "Equation, wider than the page"],
    [".pst-scrollable-table-container", "Table, wider than the page"],
    [".cell_output .output.text_html", "Output, wider than the page"],
    ["pre", "Code, wider than the page"],
  ];
  const mark = () => {
    /* An equation within a line that is longer than a line gets one of its own. */
    for (const element of document.querySelectorAll("span.math:has(mjx-container)")) {
      const block = element.closest("p, li, td, th, dd, h1, h2, h3, h4, figcaption");
      const width = element.querySelector("mjx-math").getBoundingClientRect().width;
      element.classList.toggle("tl-long", Boolean(block) && width > block.clientWidth);
    }
    /* A formula and what is attached to it share a line, if a line can hold them. */
    for (const element of document.querySelectorAll(".tl-kept")) {
      element.classList.remove("tl-wraps");
      const block = element.closest("p, li, td, th, dd, h1, h2, h3, h4, figcaption");
      const tooLong = block && element.getBoundingClientRect().width > block.clientWidth;
      if (tooLong || element.querySelector(".tl-long")) element.classList.add("tl-wraps");
    }
    for (const [selector, label] of scrollers)
      for (const element of document.querySelectorAll(selector)) {
        if (element.scrollWidth > element.clientWidth + 1) {
          element.tabIndex = 0;
          element.setAttribute("role", "region");
          element.setAttribute("aria-label", label);
        } else if (element.getAttribute("role") === "region") {
          element.removeAttribute("tabindex");
          element.removeAttribute("role");
          element.removeAttribute("aria-label");
        }
      }
  };
  let waiting = 0;
  const later = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(mark);
  };
  addEventListener("load", later);
  addEventListener("load", () => window.MathJax?.startup?.promise?.then(later));
  addEventListener("resize", later);
  document.addEventListener("toggle", later, true);
  const sizes = new ResizeObserver(later);
  for (const element of document.querySelectorAll("div.math")) sizes.observe(element);
  later();

  /* On paper everything is open. */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll(".bd-article details:not([open])")];
    for (const element of closed) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of closed) element.open = false;
  });
});
