"use strict";
(() => {
  const PAUSE = 2000;
  const find = (id) => document.getElementById(id);
  const make = (kind, text = "", name = "") => Object.assign(document.createElement(kind), { textContent: text, className: name });
  const count = (number) => number.toLocaleString("en");
  const clock = (seconds) => {
    const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
    return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)} min` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)} h`;
  };
  const rate = (value) => (value >= 10 ? count(Math.round(value)) : value.toFixed(1));

  const show = (element, texts) => {
    if (JSON.stringify(texts) === element.dataset.shown) return false; // unchanged: keeps focus and selection
    element.dataset.shown = JSON.stringify(texts);
    return true;
  };
  function bar(element, done, failed, total) {
    element.querySelector(".done").style.width = `${(100 * done) / Math.max(1, total)}%`;
    element.querySelector(".failed").style.width = `${(100 * failed) / Math.max(1, total)}%`;
    element.setAttribute("aria-valuemax", total);
    element.setAttribute("aria-valuenow", done);
    element.setAttribute("aria-valuetext", `${done} of ${total} done, ${failed} failed`);
  }
  function drawNumbers(run) {
    const rows = [["done", `${count(run.done)} of ${count(run.total)}`], ["running", count(run.current.length)], ["failed", count(run.failed)], ["missing", count(run.total - run.done)]];
    if (run.images) rows.push(["images", `${count(run.images.done)} of ${count(run.images.total)}`], ["throughput", run.images.rate ? `${rate(run.images.rate)} images/s` : "–"]);
    if (run.state === "running") rows.push(["time left, about", run.left === null ? "–" : clock(run.left)]);
    const list = find("numbers");
    if (!show(list, rows)) return;
    list.replaceChildren(...rows.map(([name, value]) => {
      const box = document.createElement("div");
      box.append(make("dt", name), make("dd", value));
      return box;
    }));
  }
  function drawParts(parts) {
    const body = find("parts").tBodies[0];
    if (!show(body, parts)) return;
    body.replaceChildren(...parts.map((part) => {
      const row = document.createElement("tr"), name = make("th"), cell = document.createElement("td"), track = make("div", "", "bar");
      name.scope = "row";
      name.append(make("bdi", part.name));
      track.append(make("i", "", "done"), make("i", "", "failed"));
      track.setAttribute("role", "progressbar");
      track.setAttribute("aria-label", part.name);
      bar(track, part.done, part.failed, part.total);
      cell.append(track);
      row.append(name, cell, ...[part.done, part.failed, part.total - part.done].map((number) => make("td", count(number))));
      return row;
    }));
  }
  function drawCurrent(run) {
    find("working").hidden = run.state !== "running";
    const lines = run.current.map((one) => {
      const detector = one.detector && !one.title.includes(one.detector) ? ` (${one.detector})` : "";
      return one.title + detector + (one.seconds === null || one.seconds < 5 ? "" : `, last progress ${clock(one.seconds)} ago`);
    });
    const list = find("current");
    if (!lines.length) lines.push(run.images?.title || "between two results");
    if (show(list, lines)) list.replaceChildren(...lines.map((line) => make("li", line)));
  }
  function drawFailures(failures) {
    find("failed").hidden = !failures.length;
    const list = find("failures");
    if (!show(list, failures)) return;
    list.replaceChildren(...failures.map((one) => {
      const item = make("li"), few = one.titles.slice(0, 3), more = one.titles.length - few.length;
      item.append(make("b", one.reason), make("div", few.join("; ") + (more > 0 ? ` and ${count(more)} more` : ""), "caption"));
      return item;
    }));
  }
  function draw(run) {
    const state = run.problem ? "lost" : run.state;
    Object.assign(find("state"), { textContent: run.problem ? "cannot be read" : state, className: `state ${state}` });
    Object.assign(find("problem"), { textContent: run.problem ? `${run.problem}. Below is the last status that could be read; the page goes on asking.` : "", hidden: !run.problem });
    find("name").textContent = run.name;
    find("facts").textContent = run.budget ? `· budget ${run.budget}` : "";
    document.title = `${run.total ? Math.floor((100 * run.done) / run.total) : 0} % ${run.name} · farout view`;
    bar(find("bar"), run.done, run.failed, run.total);
    drawNumbers(run);
    drawParts(run.parts);
    drawCurrent(run);
    drawFailures(run.failures);
  }

  let version = null, asked = false;
  async function tables(wanted) {
    if (asked || wanted === version) return;
    asked = true;
    try {
      const answer = await fetch("tables");
      if (answer.ok) {
        const place = find("tables"), text = await answer.text(), open = new Set([...place.querySelectorAll("details[open] > summary")].map((one) => one.firstChild.textContent));
        if (show(place, text)) { // escaped by the server; scripts in it would not run
          place.innerHTML = text;
          place.querySelectorAll("summary").forEach((one) => { one.parentElement.open = open.has(one.firstChild.textContent); });
        }
        version = wanted;
      }
    } finally { asked = false; }
  }
  async function ask() {
    try {
      const answer = await fetch("status.json");
      if (!answer.ok) throw new Error(String(answer.status));
      const run = await answer.json();
      draw(run);
      tables(run.tables).catch(() => {});
    } catch {
      Object.assign(find("state"), { textContent: "farout view has ended", className: "state lost" });
    }
    setTimeout(ask, document.hidden ? 5 * PAUSE : PAUSE);
  }
  ask();
})();
