// The list of runs, with search and filters.

import { announce, beside, button, choice, count, duration, failure, h, link, money, notice, released, replace, status, when, whole } from "./dom.js";
import { get, part, query } from "./api.js";

const EVERY_MS = 2000;
const STEP = 100;
const STATES = [["", "Any status"], "running", "interrupted", "completed", "partial", "abstained", "failed", "cancelled"];
const PERIODS = [["", "Any time"], ["1", "Last hour"], ["24", "Last day"], ["168", "Last week"]];

export async function runsPage(main, { state, parameters, isHere }) {
  const chosen = new Set();
  const wanted = {
    text: parameters.get("text") ?? "", agent: parameters.get("agent") ?? "", status: parameters.get("status") ?? "",
    tool: parameters.get("tool") ?? "", user: parameters.get("user") ?? "", tag: parameters.get("tag") ?? "",
    session: parameters.get("session") ?? "", hours: "", min_cost: "", children: "", limit: STEP,
  };
  let shown = null;
  let timer;
  const body = h("tbody");
  const table = h("table", { class: "runs" },
    h("caption", { class: "unseen" }, "Runs, the latest first"),
    h("thead", {}, h("tr", {},
      h("th", { scope: "col", class: "pick" }, h("span", { class: "unseen" }, "Compare")),
      h("th", { scope: "col" }, "Task"), h("th", { scope: "col", class: "wide-only" }, "Agent"),
      h("th", { scope: "col" }, "Status"), h("th", { scope: "col", class: "wide-only" }, "Began"),
      h("th", { scope: "col", class: "number" }, "Took"),
      h("th", { scope: "col", class: "number wide-only" }, "Tokens"), h("th", { scope: "col", class: "number wide-only" }, "Cost"))),
    body);
  const more = button("Show more", () => {
    wanted.limit += STEP;
    load();
  }, { class: "quiet", hidden: true });
  const place = h("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Runs" }, table);
  const compare = button("Compare two runs", () => {
    const [one, other] = [...chosen];
    location.hash = `#/compare/${part(one)}/${part(other)}`;
  }, { class: "quiet", disabled: true, title: "Choose two runs by their boxes" });

  const filter = (name, element) => {
    element.addEventListener(element.tagName === "SELECT" || element.type === "checkbox" ? "change" : "input", () => {
      wanted[name] = element.type === "checkbox" ? (element.checked ? "true" : "") : element.value;
      wanted.limit = STEP;
      clearTimeout(timer);
      timer = setTimeout(load, 120);
    });
    return element;
  };
  const input = (name, label, properties) => filter(name, h("input", {
    type: "text", placeholder: label, "aria-label": label, value: wanted[name], autocomplete: "off", ...properties,
  }));
  const agents = choice("agent", [["", "Any agent"], ...state.names.map((each) => [each, each])], wanted.agent, { "aria-label": "Agent" });
  const extra = h("details", { class: "more-filters", open: Boolean(wanted.tool || wanted.user || wanted.tag || wanted.session) },
    h("summary", {}, "More filters"),
    h("div", { class: "filters" }, input("tool", "Called the tool"), input("user", "User"), input("session", "Session"),
      input("tag", "Tag"), input("min_cost", "Cost at least, $", { inputmode: "decimal" }),
      h("label", { class: "check" }, filter("children", h("input", { type: "checkbox" })), "Runs of sub-agents as well")));
  replace(main,
    h("div", { class: "page" },
      h("div", { class: "head" }, h("h1", {}, "Runs"), h("p", { class: "quiet", id: "number" }), compare),
      h("div", { class: "filters" },
        input("text", "Search tasks, ids, users  ( / )", { type: "search", class: "grow" }),
        filter("agent", agents), filter("status", choice("status", STATES, wanted.status, { "aria-label": "Status" })),
        filter("hours", choice("hours", PERIODS, "", { "aria-label": "Time" }))),
      extra, place, more));
  const number = main.querySelector("#number");

  async function load(quiet = false) {
    clearTimeout(timer);
    const since = wanted.hours ? new Date(Date.now() - wanted.hours * 3.6e6).toISOString() : "";
    const { hours, ...given } = wanted;
    try {
      const answer = await get(`runs${query({ ...given, since })}`);
      await released();
      if (!isHere()) return;
      draw(answer.runs);
      if (!quiet) announce(count(answer.runs.length, "run"));
    } catch (error) {
      if (isHere() && !quiet) replace(place, failure(error, () => load()));
    }
    if (isHere()) timer = setTimeout(() => (document.hidden ? (timer = setTimeout(() => load(true), EVERY_MS)) : load(true)), EVERY_MS);
  }

  function draw(runs) {
    const text = JSON.stringify(runs);
    if (text === shown) return;
    shown = text;
    number.textContent = runs.length < wanted.limit ? count(runs.length, "run") : `The latest ${whole(runs.length)}`;
    more.hidden = runs.length < wanted.limit;
    if (!runs.length) {
      replace(place, emptyList(state, Object.entries(wanted).some(([name, value]) => name !== "limit" && value)));
      return;
    }
    if (!table.isConnected) replace(place, table);
    const focused = document.activeElement?.closest("tr")?.dataset.run;
    replace(body, runs.map(line));
    if (focused) [...body.children].find((each) => each.dataset.run === focused)?.querySelector("a")?.focus();
  }

  function line(run) {
    const box = h("input", { type: "checkbox", "aria-label": `Compare ${run.task.slice(0, 60)}`, onchange: () => {
      if (box.checked) chosen.add(run.run_id);
      else chosen.delete(run.run_id);
      compare.disabled = chosen.size !== 2;
    } });
    box.checked = chosen.has(run.run_id);
    return h("tr", { "data-run": run.run_id, onclick: (event) => {
      if (!event.target.closest("a, input, button") && !String(getSelection())) location.hash = `#/run/${part(run.run_id)}`;
    } },
      h("td", { class: "pick" }, box),
      h("td", { class: "task" }, link(`run/${part(run.run_id)}`, { title: run.task.slice(0, 600), dir: "auto" }, run.task.slice(0, 300) || "(no text)"),
        h("span", { class: "under" }, h("span", { class: "narrow-only" }, beside(run.agent, money(run.cost_usd))), beside(run.session && `session ${run.session}`, run.user, ...run.tags, run.opened && "opened from a file"))),
      h("td", { class: "wide-only" }, run.agent),
      h("td", {}, status(run.status)),
      h("td", { class: "wide-only when" }, h("time", { datetime: run.started_at, title: when(run.started_at, true) }, when(run.started_at))),
      h("td", { class: "number" }, run.duration_s === null ? "" : duration(run.duration_s * 1000)),
      h("td", { class: "number wide-only" }, whole(run.tokens)),
      h("td", { class: "number wide-only" }, money(run.cost_usd)));
  }

  await load(true);
  return () => clearTimeout(timer);
}

function emptyList(state, filtered) {
  if (filtered) return notice("No run fits", "Take a filter away, or search for another word.");
  return notice("No runs yet",
    state.agents.length
      ? "Start one with “New run”, or run an agent elsewhere with the same file."
      : `Runs of agents with a run log appear here. The file is ${state.runs_file}.`,
    h("pre", { class: "text" }, 'reactive-agents run "What is 17 * 23?" --tools calculator'),
    !state.agents.length && h("p", {}, "To start runs from this page, name the configuration of an agent: "),
    !state.agents.length && h("pre", { class: "text" }, "reactive-agents studio agent.toml"));
}
