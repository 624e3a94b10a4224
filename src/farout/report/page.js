"use strict";
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const color = (name) => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  // Charts: drawn when they come near the window, in the colors of the theme.
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const themed = (part, colors) => JSON.parse(JSON.stringify(part), (key, value) => (key === "color" && colors[value]) || value);
  const axis = (own, colors) => ({ gridcolor: colors.line, zerolinecolor: colors.line, linecolor: colors.line, fixedrange: true, ...own });
  let colors = null;
  function draw(place) {
    const panel = charts[place.dataset.chart];
    colors ??= { ink: color("ink"), faint: color("soft"), line: color("line") };
    const own = themed(panel.layout, colors);
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: false, hovermode: "closest",
      font: { family: "system-ui, sans-serif", size: 11, color: colors.ink }, hoverlabel: { align: "left" },
      ...own, margin: { l: 44, r: 12, t: 8, b: 38, ...own.margin }, xaxis: axis(own.xaxis, colors), yaxis: axis(own.yaxis, colors),
    };
    if (own.polar) {
      layout.polar = { bgcolor: "rgba(0,0,0,0)", ...own.polar };
      for (const name of ["radialaxis", "angularaxis"]) layout.polar[name] = { ...own.polar[name], gridcolor: colors.line, linecolor: colors.line };
    }
    place.dataset.drawn = "yes";
    return Plotly.react(place, themed(panel.data, colors), layout, { displayModeBar: false, responsive: true, showTips: false });
  }
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  all(".plot").forEach((place) => near.observe(place));
  const redraw = () => { colors = null; all(".plot[data-drawn]").forEach(draw); };

  document.addEventListener("theme", redraw);

  // Overview: one tab stop, arrow keys move between cells, and a text shows what a cell is.
  const tip = document.getElementById("tip");
  const show = (link) => {
    const box = link.getBoundingClientRect();
    tip.textContent = link.getAttribute("aria-label");
    tip.hidden = false;
    tip.style.left = `${Math.max(4, Math.min(box.left, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.bottom + tip.offsetHeight + 6 > innerHeight ? box.top - tip.offsetHeight - 4 : box.bottom + 4}px`;
  };
  const hide = () => { tip.hidden = true; };
  all(".matrix").forEach((table) => {
    const links = all("td a", table);
    links.forEach((link, place) => { link.tabIndex = place ? -1 : 0; });
    for (const kind of ["focusin", "mouseover"]) table.addEventListener(kind, (event) => { const link = event.target.closest("td a"); if (link) show(link); });
    for (const kind of ["focusout", "mouseout"]) table.addEventListener(kind, hide);
    table.addEventListener("keydown", (event) => {
      const link = event.target.closest("td a"), step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.key === "Escape") hide();
      if (!link || !step) return;
      event.preventDefault();
      const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
      let [row, column] = [rows.indexOf(link.closest("tr")), link.closest("td").cellIndex];
      do { row += step[0]; column += step[1]; } while (rows[row]?.cells[column] && !rows[row].cells[column].querySelector("a"));
      const next = rows[row]?.cells[column]?.querySelector("a");
      if (!next) return;
      link.tabIndex = -1; next.tabIndex = 0; next.focus();
    });
  });
  addEventListener("scroll", hide, { passive: true });

  // Pictures: enlarged in a dialog, filtered by detector and stress.
  const dialog = document.getElementById("picture");
  let shown = null;
  function enlarge(thumb) {
    shown = thumb;
    const image = thumb.querySelector("img");
    Object.assign(dialog.querySelector("img"), { src: image.src, alt: image.alt });
    dialog.querySelector("p").textContent = image.alt;
    if (!dialog.open) dialog.showModal();
  }
  const step = (by) => {
    const thumbs = all(".thumb").filter((thumb) => thumb.offsetParent);
    enlarge(thumbs[(thumbs.indexOf(shown) + by + thumbs.length) % thumbs.length]);
  };
  document.addEventListener("click", (event) => {
    const thumb = event.target.closest(".thumb");
    if (thumb) enlarge(thumb);
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => { if (event.key === "ArrowRight") step(1); if (event.key === "ArrowLeft") step(-1); });
  all("button[data-step]", dialog).forEach((one) => one.addEventListener("click", () => step(Number(one.dataset.step))));
  dialog.querySelector("button[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => shown?.focus());
  const filters = all("select[data-pictures]");
  const fits = (strip) => filters.every((one) => !one.value || !strip.dataset[one.dataset.pictures] || strip.dataset[one.dataset.pictures] === one.value);
  const narrow = () => {
    all(".row[data-detector]").forEach((strip) => { strip.hidden = !fits(strip); });
    all("figure.pictures").forEach((figure) => { figure.hidden = !all(".row", figure).some((strip) => !strip.hidden && (strip.dataset.detector || !filters[0].value)); });
  };
  filters.forEach((one) => one.addEventListener("change", narrow));

  // CSV of a figure: every point of every panel.
  const quoted = (cell) => {
    const text = String(cell ?? "").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
    const safe = /^[=+\-−@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return `"${safe.replace(/"/g, '""')}"`;
  };
  function points(panel) {
    return panel.data.filter((trace) => trace.hoverinfo !== "skip").flatMap((trace) => {
      const ticks = (which) => panel.layout[which]?.ticktext;
      if (trace.type === "heatmap") return trace.z.flatMap((line, row) => line.map((z, column) => [panel.title, "", (trace.x ?? ticks("xaxis"))[column], (trace.y ?? ticks("yaxis"))[row], z, "", ""]));
      const xs = trace.theta ?? trace.x, ys = trace.r ?? trace.y, error = trace.error_x ?? trace.error_y ?? {};
      return xs.map((x, place) => {
        const main = trace.error_x ? x : ys[place], bound = (by, sign) => (by ? main + sign * by[place] : "");
        const label = trace.orientation === "h" ? ticks("yaxis")[place] : ys[place];
        return [panel.title, trace.name ?? "", x, label, "", bound(error.arrayminus, -1), bound(error.array, 1)];
      });
    });
  }
  all("button[data-csv]").forEach((one) => one.addEventListener("click", () => {
    const panels = all(".plot", one.closest("figure")).map((place) => charts[place.dataset.chart]);
    const lines = [["panel", "series", "x", "y", "value", "low", "high"], ...panels.flatMap(points)];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n"], { type: "text/csv" }));
    link.download = `${one.dataset.csv}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }));

  // Printing shows everything; a link into a folded part opens it; the navigation marks the section in view.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach((one) => { one.open = true; });
    all(".plot:not([data-drawn])").forEach(draw);
  });
  addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
  const open = () => { for (let part = document.getElementById(decodeURIComponent(location.hash.slice(1))); part; part = part.parentElement) if (part.localName === "details") part.open = true; };
  addEventListener("hashchange", open);
  open();
  const links = all("nav a"), sections = links.map((link) => document.getElementById(link.hash.slice(1)));
  const mark = () => {
    const last = sections.findLastIndex((section) => section.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, place) => (place === last ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
})();
