"use strict";
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // Tables: sorted by the buttons in their heads, filtered by the box and the lists above them.
  const value = (row, place) => (row.cells[place].querySelector("bdi") ?? row.cells[place]).textContent.trim();
  function sort(head) {
    const table = head.closest("table"), body = table.tBodies[0], place = Number(head.dataset.column), numeric = head.dataset.kind === "number";
    const up = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") !== "ascending" : !numeric || head.dataset.better === "lower";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = [...body.rows].map((row) => [numeric ? parseFloat(value(row, place).replace("−", "-")) : value(row, place), row]);
    const compare = (a, b) => (numeric ? a - b : String(a).localeCompare(String(b)));
    const missing = (key) => Number.isNaN(key) || key === "–";
    keyed.sort(([a], [b]) => missing(a) - missing(b) || (missing(a) ? 0 : up ? compare(a, b) : compare(b, a)));
    body.append(...keyed.map(([, row]) => row));
  }
  all("thead button").forEach((one) => one.addEventListener("click", () => sort(one.closest("th"))));
  // A row is shown if it has all words of the box and, among its values, the one of every list.
  const controls = (table) => all("[data-filters]").filter((one) => one.dataset.filters === table.id);
  const fits = (row, control) => {
    if (control.dataset.key) return !control.value || JSON.parse(row.dataset.values)[control.dataset.key].includes(control.value);
    const text = row.textContent.toLowerCase();
    return control.value.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));
  };
  function filter(table) {
    const own = controls(table), rows = [...table.tBodies[0].rows];
    rows.forEach((row) => { row.hidden = !own.every((control) => fits(row, control)); });
    const count = own[0].closest(".tools").querySelector("output");
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  }
  all("[data-filters]").forEach((one) => one.addEventListener("input", () => filter(document.getElementById(one.dataset.filters))));
})();
