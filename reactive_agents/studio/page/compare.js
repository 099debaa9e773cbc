// Two runs side by side, from the first step that differs.

import { button, count, duration, failure, h, link, money, replace, status, whole } from "./dom.js";
import { get, part } from "./api.js";
import { detail } from "./detail.js";
import { VirtualList } from "./list.js";

export async function comparePage(main, { rest: [one, other], isHere }) {
  replace(main, h("p", { class: "loading" }, "Comparing…"));
  const known = await get(`compare/${part(one)}/${part(other)}`);
  if (!isHere()) return null;
  const rows = known.runs.map((each) => new Map(each.rows.map((row) => [row.id, row])));
  const pairs = known.pairs.map(([a, b, same]) => [rows[0].get(a), rows[1].get(b), same]);
  const details = [h("div", { class: "inspector", tabindex: "0", role: "region", "aria-label": "The step of the first run" }), h("div", { class: "inspector", tabindex: "0", role: "region", "aria-label": "The step of the second run" })];
  const list = new VirtualList({
    label: "Steps of both runs", rowHeight: 34,
    render: (element, pair) => line(element, pair),
    choose: (pair) => show(pair),
  });
  const head = (each) => h("div", { class: "compared" }, h("h2", {}, link(`run/${part(each.run.run_id)}`, {}, each.run.task.slice(0, 200))),
    h("div", { class: "figure-line" }, status(each.run.status), h("span", {}, each.run.agent), h("span", {}, duration((each.run.duration_s ?? 0) * 1000)),
      h("span", {}, `${whole(each.run.tokens)} tokens`), h("span", {}, money(each.run.cost_usd))), h("p", { class: "quiet" }, each.run.detail));
  const first = known.first;
  replace(main, h("div", { class: "page compare" },
    h("div", { class: "head" }, h("h1", {}, "Two runs"), h("p", { class: "quiet" }, first === null ? `No step differs: ${count(pairs.length, "step")} are the same.` : first === 0 ? "They differ from the first step on." : `They differ from step ${first + 1} on; what comes before is the same.`),
      first !== null && button("Go to the first difference", () => list.select(first, true)), link(`compare/${part(other)}/${part(one)}`, { class: "quiet" }, "Swap sides")),
    h("div", { class: "two" }, known.runs.map(head)), list.element, h("div", { class: "two details" }, details)));
  list.set(pairs);
  list.select(first === null ? 0 : Math.min(first, pairs.length - 1), true);

  async function show(pair) {
    await Promise.all([0, 1].map(async (side) => {
      const row = pair[side];
      if (!row) {
        replace(details[side], h("p", { class: "quiet" }, "This run has no such step."));
        return;
      }
      const { run } = known.runs[side];
      try {
        const found = await get(`runs/${part(run.run_id)}/rows/${row.id}`);
        if (isHere()) replace(details[side], detail(found, { run, can: {} }));
      } catch (error) {
        if (isHere()) replace(details[side], failure(error));
      }
    }));
  }
  return () => list.close();
}

function line(element, [one, other, same]) {
  element.className = `row pair ${same ? "same" : "differs"}`;
  replace(element, h("span", { class: "unseen" }, same ? "same: " : "differs: "), [one, other].map((row) => h("span", { class: `side ${row ? row.state : "none"}` },
    row ? [h("span", { class: "row-title" }, row.title), h("span", { class: "row-note", dir: "auto" }, row.note)] : h("span", { class: "row-note" }, "–"))));
}
