// What agents keep besides runs: conversations, memory, spending, the audit log, personas.

import { announce, beside, button, choice, count, dialog, facts, failure, field, folded, h, link, money, notice, replace, text, when, whole, write } from "./dom.js";
import { follow, get, part, post, query } from "./api.js";
import { diagram } from "./diagram.js";

const withAgent = (state, what, page) => {
  const fitting = state.agents.filter((each) => each[what]);
  return { fitting, select: choice("agent", fitting.map((each) => each.name), undefined, { "aria-label": "Agent", onchange: (event) => page(event.target.value) }) };
};

function missing(main, title, what, ...how) {
  replace(main, h("div", { class: "page" }, h("h1", {}, title), notice(`No agent with ${what} is loaded`, "Name the configuration of one that has it:", command("reactive-agents studio agent.toml"), how)));
}

const command = (line) => h("pre", { class: "text" }, line);
const chapter = (title, ...content) => h("section", { class: "part" }, h("h2", {}, title), ...content);
const framed = (label, ...content) => h("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": label }, h("table", {}, ...content));

// --- conversations -----------------------------------------------------------------------------------------

export async function sessionsPage(main, { state, rest: [chosenAgent, chosen], isHere, reload }) {
  const agents = state.agents;
  if (!agents.length) return missing(main, "Sessions", "conversations", h("p", {}, "Conversations of the command “chat” are found with the same configuration."));
  const agent = agents.some((each) => each.name === chosenAgent) ? chosenAgent : agents[0].name;
  const listed = async () => (await get(`sessions${query({ agent })}`)).sessions;
  const sessions = await listed();
  if (!isHere()) return null;
  const open = chosen ?? sessions[0]?.session;
  const side = h("nav", { class: "side-list", "aria-label": "Conversations" });
  const talk = h("div", { class: "talk" });
  const list = (found) => replace(side, found.map((each) => link(`sessions/${part(agent)}/${part(each.session)}`, { "aria-current": each.session === open ? "page" : null },
    h("strong", {}, each.title || each.session), h("span", { class: "under" }, beside(each.user, when(each.updated_at), count(each.turns, "turn"))))));
  const select = choice("agent", agents.map((each) => each.name), agent, { "aria-label": "Agent", onchange: (event) => {
    location.hash = `#/sessions/${part(event.target.value)}`;
  } });
  const begin = () => dialog("New conversation", field("Name", h("input", { name: "name", required: true, autocomplete: "off" })), {
    confirm: "Begin", action: async (form) => form.get("name"), done: (name) => {
      location.hash = `#/sessions/${part(agent)}/${part(name)}`;
    },
  });
  replace(main, h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Sessions"), select, button("New conversation", begin)),
    h("div", { class: open ? "split talks" : "" }, open && side, talk)));
  if (!open) {
    replace(talk, notice("No conversation yet", "Begin one here, or on the command line:", command("reactive-agents chat --config agent.toml"), button("New conversation", begin, { class: "primary" })));
    return null;
  }
  let unfollow = () => {};
  let known = await get(`sessions/${part(agent)}/${part(open)}`);
  if (!isHere()) return null;
  const title = h("h2");
  const bubbles = h("div", { class: "bubbles", tabindex: "0", role: "log", "aria-label": "Conversation" });
  const input = h("textarea", { rows: "3", "aria-label": "Message", placeholder: "Write a message (Ctrl+Enter sends it)" });
  const problem = h("p", { class: "form-problem", role: "alert" });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  const form = h("form", { class: "composer", onsubmit: (event) => {
    event.preventDefault();
    if (!send.disabled) say();
  } }, input, send);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  replace(talk, h("div", { class: "head" }, title, link(`runs?session=${part(open)}&agent=${part(agent)}`, {}, "Runs of this conversation")), bubbles, problem, form);
  list(sessions);
  show();
  function show() {
    write(title, known.title || open);
    replace(bubbles, known.messages.map(bubble));
    bubbles.scrollTop = bubbles.scrollHeight;
  }
  async function read() {
    const [found, all] = await Promise.all([get(`sessions/${part(agent)}/${part(open)}`), listed()]);
    if (!isHere()) return;
    known = found;
    list(all);
    show();
  }
  async function say() {
    if (!input.value.trim()) return;
    send.disabled = true;
    problem.textContent = "";
    try {
      const { run_id } = await post("runs", { agent, task: input.value, session: known.name, user: known.user });
      const answer = h("p", { class: "said-live" }, "…");
      const watch = link(`run/${part(run_id)}`, {}, "Watch the run");
      bubbles.append(bubble({ tag: "UserMessage", content: input.value }), h("div", { class: "bubble model" }, answer, watch));
      bubbles.scrollTop = bubbles.scrollHeight;
      input.value = "";
      unfollow = follow(run_id, 0, {
        delta: (given) => write(answer, given.text || "…"),
        changes: ({ run, document: { waiting } }) => {
          if (waiting) write(watch, waiting.length ? "It waits for you: open the run" : "Watch the run");
          if (run?.ended_at) finish(run);
        },
        gone: (error) => {
          write(problem, error.message);
          send.disabled = false;
        },
      });
    } catch (error) {
      write(problem, error.message);
      send.disabled = false;
    }
  }
  async function finish(run) {
    unfollow();
    try {
      await read();
    } catch (error) {
      write(problem, error.message);
    }
    if (run.status === "failed") write(problem, run.detail);
    send.disabled = false;
  }
  return () => unfollow();
}

function bubble(message) {
  const kind = { UserMessage: "user", AssistantMessage: "model", ToolMessage: "tool", SystemMessage: "tool" }[message.tag] ?? "tool";
  if (kind === "tool") return h("div", { class: "bubble tool" }, folded(`Result of ${message.tool_name ?? "a tool"}`, () => text(message.content ?? "")));
  const calls = message.tool_calls ?? [];
  return h("div", { class: `bubble ${kind}` }, h("span", { class: "unseen" }, kind === "user" ? "You: " : "Agent: "), message.content && h("p", {}, message.content),
    calls.map((each) => folded(`Calls ${each.name}`, () => text(each.arguments))));
}

// --- memory ------------------------------------------------------------------------------------------------

export async function memoryPage(main, { state, isHere }) {
  const { fitting, select } = withAgent(state, "memory", () => load());
  if (!fitting.length) return missing(main, "Memory", "memory", h("p", {}, "Memory is a table of the configuration:"), command('[memory]\npath = "memory.db"'));
  let timer;
  const search = h("input", { type: "search", placeholder: "Search the entries  ( / )", "aria-label": "Search the entries", class: "grow", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(load, 150);
  } });
  const list = h("div", { class: "entries" });
  replace(main, h("div", { class: "page" }, h("h1", {}, "Memory"), h("div", { class: "filters" }, search, select), list));
  async function load() {
    try {
      const { entries } = await get(`memory${query({ agent: select.value, text: search.value })}`);
      if (!isHere()) return;
      announce(count(entries.length, "entry").replace("entrys", "entries"));
      replace(list, entries.length ? entries.map(entry) : notice(search.value ? "Nothing found" : "Nothing is remembered yet", search.value ? "Every word has to be in an entry." : "Runs with memory store here what is worth keeping."));
    } catch (error) {
      if (isHere()) replace(list, failure(error, load));
    }
  }
  function entry(each) {
    return h("article", { class: "entry" }, h("p", {}, each.content), h("div", { class: "entry-foot" }, h("span", { class: "label" }, each.kind), h("span", { class: "under" }, beside(each.origin, each.user, each.session, when(each.seen_at))),
      button("Forget", () => dialog("Forget this for good?", text(each.content), { confirm: "Forget", danger: true, action: () => post("memory/forget", { agent: select.value, id: each.id }), done: load }), { class: "quiet danger", "aria-label": `Forget: ${each.content.slice(0, 60)}` })));
  }
  await load();
  return () => clearTimeout(timer);
}

// --- spending ----------------------------------------------------------------------------------------------

export async function budgetsPage(main, { isHere, state }) {
  const known = await get("budgets");
  if (!isHere()) return null;
  const table = (name, groups, total = 0) => chapter(`By ${name.toLowerCase()}`, total > groups.length && h("p", { class: "quiet" }, `The first ${whole(groups.length)} of ${whole(total)}.`), framed(`By ${name.toLowerCase()}`, h("thead", {}, h("tr", {}, [name, "Runs", "Tokens", "Cost"].map((each, at) => h("th", { scope: "col", class: at ? "number" : null }, each)))),
    h("tbody", {}, groups.map((each) => h("tr", {}, h("td", {}, each.name || "(unnamed)"), h("td", { class: "number" }, whole(each.runs)), h("td", { class: "number" }, whole(each.tokens)), h("td", { class: "number" }, money(each.cost_usd)))))));
  replace(main, h("div", { class: "page" }, h("h1", {}, "Budgets and spending"),
    chapter("Limits", known.limits.length ? known.limits.map((each) => h("div", { class: "limit" }, h("div", { class: "step-line" }, h("strong", {}, each.agent), h("span", {}, each.spent_usd === null ? `${each.period}: at most ${money(each.limit_usd)}` : `${{ day: "today", month: "this month" }[each.period]}: ${money(each.spent_usd)} of ${money(each.limit_usd)}`)),
      each.spent_usd !== null && h("meter", { min: 0, max: each.limit_usd, value: each.spent_usd, high: each.limit_usd * 0.8, "aria-label": `${each.agent}, ${each.period}` }))) : h("p", { class: "quiet" }, state.agents.length ? "No loaded agent has a budget. Limits in dollars are daily_usd, monthly_usd, run_usd, user_daily_usd and user_monthly_usd in the table [cost] of the configuration." : "No agent is loaded.")),
    known.latest_runs && h("p", { class: "quiet" }, `The totals are those of the latest ${whole(known.latest_runs)} runs.`),
    known.by_agent.length ? [table("Agent", known.by_agent), known.by_user.some((each) => each.name) && table("User", known.by_user, known.users), table("Day", known.by_day, known.days)] : notice("Nothing is spent yet", "The totals are those of the run log."),
  ));
  return null;
}

// --- the audit log -----------------------------------------------------------------------------------------

export async function auditPage(main, { state, isHere }) {
  const { fitting, select } = withAgent(state, "audit", () => load());
  if (!fitting.length) return missing(main, "Audit", "an audit log", h("p", {}, "The audit log is a table of the configuration:"), command('[audit]\npath = "audit.db"'));
  const place = h("div");
  replace(main, h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Audit"), select, button("Verify again", () => load())), place));
  async function load() {
    try {
      const known = await get(`audit${query({ agent: select.value })}`);
      if (!isHere()) return;
      announce(known.valid ? "The log is valid" : "The log was tampered with");
      replace(place, h("div", { class: `verdict ${known.valid ? "done" : "failed"}` }, h("h2", {}, known.valid ? "The log is valid" : "The log is not valid"), h("p", {}, known.valid ? `${count(known.entries_count, "entry").replace("entrys", "entries")}: none was changed, removed or inserted.` : known.problem),
        facts([["Head", known.head], ["Signed", known.signed === null ? "" : known.signed ? "yes" : "no"]])),
        known.entries.length > 0 && framed("Entries", h("caption", { class: "unseen" }, "Entries, the latest first"), h("thead", {}, h("tr", {}, ["#", "When", "Run", "Action", "Subject", "Detail"].map((each) => h("th", { scope: "col" }, each)))),
          h("tbody", {}, known.entries.map((each) => h("tr", {}, h("td", { class: "number" }, whole(each.sequence)), h("td", { class: "when" }, when(each.at)), h("td", {}, link(`run/${part(each.run_id)}`, { class: "id" }, each.run_id.slice(-8))), h("td", {}, each.action), h("td", {}, each.subject), h("td", { class: "wrap" }, each.detail))))));
    } catch (error) {
      if (isHere()) replace(place, failure(error, load));
    }
  }
  await load();
  return null;
}

// --- personas ----------------------------------------------------------------------------------------------

export async function personasPage(main, { state, rest: [chosen], isHere }) {
  if (!state.personas.length) {
    replace(main, h("div", { class: "page" }, h("h1", {}, "Personas"), notice("No persona is loaded", "Name the configuration of one:", command("reactive-agents studio persona.toml"))));
    return null;
  }
  const name = chosen ?? state.personas[0].id;
  const known = await get(`personas/${part(name)}`);
  if (!isHere()) return null;
  const forget = (each) => dialog("Delete this learning?", h("div", {}, text(each.pattern), h("p", { class: "quiet" }, "It is not used or learned again.")), { confirm: "Delete", danger: true, action: () => post(`personas/${part(name)}/forget`, { id: each.id }), done: () => personasPage(main, { state, rest: [name], isHere }) });
  replace(main, h("div", { class: "page" }, h("div", { class: "head" }, h("h1", {}, "Personas"), choice("persona", state.personas.map((each) => [each.id, each.name]), name, { "aria-label": "Persona", onchange: (event) => {
    location.hash = `#/personas/${part(event.target.value)}`;
  } })),
    chapter("Plans", known.plans.length ? known.plans.map((each) => folded(`${when(each.at)}  ${each.goal}  (${each.status})`, () => h("div", {}, h("p", { class: "quiet" }, each.event), diagram(each.diagram, { label: "Steps of the plan" }),
      h("ol", { class: "steps" }, each.explanation.map((line) => h("li", {}, h("span", { class: "label" }, line.stage), " ", line.text)))), each === known.plans[0])) : h("p", { class: "quiet" }, "No plan yet.")),
    chapter("Learnings", known.learnings.length ? framed("Learnings", h("thead", {}, h("tr", {}, ["Pattern", "Confidence", "Succeeded", "Failed", ""].map((each, at) => h("th", { scope: "col", class: at && at < 4 ? "number" : null }, each || h("span", { class: "unseen" }, "Delete"))))),
      h("tbody", {}, known.learnings.map((each) => h("tr", {}, h("td", { class: "wrap" }, each.pattern, h("div", { class: "hint" }, beside(each.domain, each.tenant && `tenant ${each.tenant}`, each.room && `room ${each.room} alone`, each.pinned && "set by hand"))), h("td", { class: "number" }, each.confidence.toFixed(2)), h("td", { class: "number" }, whole(each.success_count)), h("td", { class: "number" }, whole(each.failure_count)), h("td", {}, button("Delete", () => forget(each), { class: "quiet danger", "aria-label": `Delete: ${each.pattern.slice(0, 60)}` })))))) : h("p", { class: "quiet" }, "Nothing is learned yet."))));
  return null;
}
