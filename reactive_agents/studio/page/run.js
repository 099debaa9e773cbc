// One run: its timeline as it happens, the details of a row, its plan, tree and attempts, and what can be done.

import { announce, button, count, dialog, duration, facts, failure, field, h, link, money, notice, plainly, released, replace, section, status, text, tone, visible, when, whole, write } from "./dom.js";
import { follow, get, parsed, part, post } from "./api.js";
import { detail } from "./detail.js";
import { diagram } from "./diagram.js";
import { VirtualList } from "./list.js";
import { newRun, save } from "./start.js";

const ROW_HEIGHT = 34;
const ORDERED = { pause: "It pauses before its next step.", stop: "It stops after its step, with what it has.", cancel: "It is being cancelled." };
const MARKS = {
  turn: "◆", question: "◇", tool: "⚒", policy: "⚑", plan: "▤", step: "▸", tree: "⑂", answer: "✓", result: "✓", end: "■", start: "●",
  critique: "✎", reflect: "✎", search: "⑂", strategy: "◎", failure: "!", person: "?", pause: "‖", agent: "→", phase: "", context: "⇣", verify: "✓", attempt: "↻",
};

export async function runPage(main, { state, rest: [runId, chosen], isHere }) {
  replace(main, h("p", { class: "loading" }, "Loading the run…"));
  const known = await get(`runs/${part(runId)}`);
  if (!isHere()) return null;
  const view = new RunView(main, state, known, isHere);
  view.begin(Number(chosen) || 0);
  return () => view.close();
}

class RunView {
  constructor(main, state, known, isHere) {
    this.main = main;
    this.state = state;
    this.isHere = isHere;
    this.run = known.run;
    this.can = known.can;
    this.children = known.children;
    this.diagrams = known.diagrams;
    this.document = known.document;
    this.rows = new Map(known.document.rows.map((each) => [each.id, each]));
    this.everything = false;
    this.search = "";
    this.selected = 0;
    this.tab = "timeline";
    this.live = {};
    this.cards = new Map();
    this.unfollow = () => {};
    this.drawing = false;
  }

  begin(chosen) {
    this.list = new VirtualList({
      label: "Steps of the run", rowHeight: ROW_HEIGHT, render: (row, item) => this.line(row, item),
      choose: (item) => {
        this.follows = false;
        this.choose(item);
      }, open: () => this.inspector.focus(),
    });
    this.inspector = h("div", { class: "inspector", tabindex: "-1", role: "region", "aria-label": "Details of the step" });
    this.inspector.addEventListener("keydown", (event) => event.key === "Escape" && this.back());
    this.head = h("div", { class: "run-head" });
    this.waiting = h("div", { class: "waits", "aria-live": "polite" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the run" });
    this.panel = h("div", { class: "panel", role: "tabpanel", id: "panel", "aria-label": "View" });
    this.tools = h("div", { class: "list-tools" },
      h("input", { type: "search", placeholder: "Search steps  ( / )", "aria-label": "Search steps", oninput: (event) => {
        this.search = event.target.value.toLowerCase();
        this.refill();
      } }),
      h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => {
        this.everything = event.target.checked;
        this.refill();
      } }), "All events"));
    this.timeline = h("div", { class: "split" },
      h("div", { class: "timeline" }, this.tools, this.list.element), this.inspector);
    replace(this.main, h("div", { class: "page run" }, this.head, this.waiting, this.tabs, this.panel));
    this.drawAll();
    this.follows = !this.rows.has(chosen);
    const first = this.rows.get(chosen) ?? this.firstRow();
    if (first) this.choose(first, true);
    else replace(this.inspector, notice("Nothing has happened yet", "Steps appear here as they happen."));
    if (this.isUnderWay) {
      this.follow();
      this.clock = setInterval(async () => {
        await released();
        if (this.isHere() && this.isUnderWay && !this.isCutOff) this.drawHead();
      }, 1000);
    }
  }

  get isUnderWay() {
    return !this.run.ended_at && !this.run.opened;
  }

  close() {
    clearInterval(this.clock);
    this.unfollow();
    this.list.close();
  }

  firstRow() {
    const rows = [...this.rows.values()];
    return rows.find((each) => each.state === "waiting") ?? rows.findLast((each) => each.kind === "answer") ?? rows.findLast((each) => each.kind === "turn") ?? rows[0];
  }

  // --- as it happens -------------------------------------------------------------------------------------

  follow() {
    this.unfollow();
    this.unfollow = follow(this.run.run_id, this.document.last, {
      changes: (patch) => this.take(patch),
      delta: (given) => {
        this.live = given;
        this.drawLive();
      },
      state: (open) => {
        this.isCutOff = !open;
        this.head.classList.toggle("cut-off", !open);
      },
      gone: (error) => replace(this.main, failure(error)),
    });
  }

  take(patch) {
    if (!this.isHere()) return;
    const { document: changed } = patch;
    const before = this.rows.size;
    for (const each of changed.rows) this.rows.set(each.id, each);
    this.document = { ...this.document, ...changed };
    if (patch.run) this.run = patch.run;
    if (patch.children) this.children = patch.children;
    if (patch.diagrams) this.diagrams = { ...this.diagrams, ...patch.diagrams };
    if (patch.can) this.can = patch.can;
    this.stale = changed.rows.some((each) => each.id === this.selected);
    if (this.rows.size !== before && this.rows.size % 10 === 0) announce(count(this.rows.size, "step"));
    if (!this.isUnderWay) {
      announce(`The run ended: ${this.run.status}`);
      this.unfollow();
    }
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(async () => {
      await released();
      this.drawing = false;
      if (!this.isHere()) return;
      this.drawAll();
      const latest = this.follows && this.firstRow();
      if (latest && latest.id !== this.selected) this.choose(latest, true);
      else if (this.stale) this.reload();
    });
  }

  async drawLive() {
    await released();
    const element = this.inspector.querySelector(".said-live");
    if (element) write(element, this.live.text);
    const row = [...this.rows.values()].findLast?.((each) => each.kind === "turn" && each.state === "running");
    if (!row) return;
    const said = plainly(this.live.text).replaceAll(/\s+/g, " ");
    row.note = said.length > 200 ? `…${said.slice(-200)}` : said;
    this.list.draw(true);
    if (row.id === this.selected && !element) {
      const place = this.inspector.querySelector(".part");
      place?.append(h("pre", { class: "text live said-live", tabindex: "0", role: "group", "aria-label": "Text as it comes" }, this.live.text));
    }
  }

  // --- drawing -------------------------------------------------------------------------------------------

  drawAll() {
    this.drawHead();
    this.drawWaiting();
    this.drawTabs();
    this.drawPanel();
  }

  drawHead() {
    const { run, document: known } = this;
    const { totals } = known;
    const overall = (ended, sofar) => (run.ended_at ? ended : sofar); // with sub-agents, once it has ended
    const shown = run.ended_at ? run.status : this.can.resume ? "interrupted" : known.waiting.length ? "waiting" : ["interrupted", "waiting"].includes(run.status) ? run.status : known.status;
    const took = run.duration_s === null ? Date.now() - Date.parse(run.started_at) : run.duration_s * 1000;
    const focused = document.activeElement?.dataset?.key;
    replace(this.head,
      h("div", { class: "crumbs" }, link("runs", {}, "Runs"), run.parent && h("span", {}, " / ", link(`run/${part(run.parent)}`, {}, "run that began it")),
        run.session && h("span", {}, " / ", link(`runs?session=${part(run.session)}`, {}, `session ${sessionOf(run)}`))),
      h("div", { class: "title-line" }, h("h1", { title: run.task.slice(0, 2000) }, run.task.slice(0, 400) || "(no text)"), status(shown)),
      h("div", { class: "figure-line" },
        h("span", {}, run.agent), known.strategy && h("span", {}, known.strategy), h("span", {}, when(run.started_at, true)),
        figure(duration(took), ""), figures(totals.model_calls, "model call"), figures(totals.tool_calls, "tool call"),
        figure(whole(overall(run.tokens, totals.tokens_in + totals.tokens_out)), "tokens"), figure(money(overall(run.cost_usd, totals.cost_usd)), "cost")),
      known.ended && known.ended.status !== "completed" && h("p", { class: `reason ${tone(known.ended.status)}` }, known.ended.reason || `Ended by ${known.ended.terminated_by}.`),
      h("div", { class: "actions", role: "toolbar", "aria-label": "What can be done" }, this.actions()));
    if (focused) this.head.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    if (this.isHere()) document.title = plainly(`${shown} · ${run.task.slice(0, 60)} · Studio`);
  }

  actions() {
    const { can } = this;
    const act = (key, label, action, properties) => button(label, () => this.order(action), { "data-key": key, ...properties });
    const { status: state } = this.document;
    const paused = state === "paused";
    if (this.ordered && (this.ordered.state !== state || !this.isUnderWay)) this.ordered = null;
    const orders = can.order && this.isUnderWay ? [
      paused ? act("resume", "Resume", "resume", { class: "primary" }) : act("pause", "Pause", "pause"),
      can.stop && act("stop", "Stop with what there is", "stop"),
      act("cancel", "Cancel", "cancel", { class: "danger" }),
      this.ordered && h("span", { class: "hint", role: "status" }, ORDERED[this.ordered.action]),
    ] : [];
    return [
      ...orders,
      can.resume && this.isUnderWay && act("continue", "Continue the run", "continue", { class: "primary", title: "No process has it under way" }),
      this.state.agents.some((each) => each.name === this.run.agent) && !this.isUnderWay && button("Run again", () => newRun(this.state, { agent: this.run.agent, task: this.run.task, user: this.run.user }), { "data-key": "again", title: "A new run of the same task" }),
      button("Compare with…", () => this.compare(), { "data-key": "compare" }),
      button("Save as a file", () => this.save("export", "jsonl"), { "data-key": "save", title: "A file that opens in another studio" }),
      can.recording && button("Save as a test recording", () => this.save("recording", "json"), { "data-key": "recording", title: "A file for RecordedRunPlayer of reactive_agents.testing" }),
      can.reason && h("span", { class: "quiet hint" }, can.reason),
    ].filter(Boolean);
  }

  async order(action, more = {}) {
    try {
      await post(`runs/${part(this.run.run_id)}/orders`, { action, ...more });
      this.ordered = ORDERED[action] && { action, state: this.document.status };
      this.drawHead();
    } catch (error) {
      dialog("That did not work", h("p", {}, error.message), { confirm: "All right", action: async () => {} });
    }
  }

  async save(kind, ending) {
    try {
      const content = await get(`runs/${part(this.run.run_id)}/${kind}`);
      save(`${this.run.run_id}.${ending}`, typeof content === "string" ? content : JSON.stringify(content, null, 1), "application/json");
      announce("Saved.");
    } catch (error) {
      dialog("That did not work", h("p", {}, error.message), { confirm: "All right", action: async () => {} });
    }
  }

  async compare() {
    const { runs } = await get(`runs?limit=60&agent=${part(this.run.agent)}`);
    const others = runs.filter((each) => each.run_id !== this.run.run_id);
    if (!others.length) {
      dialog("Compare", h("p", {}, "There is no other run of this agent yet. Fork this one, or run the task once more."), { confirm: "All right", action: async () => {} });
      return;
    }
    const select = h("select", { name: "other", size: "8" }, others.map((each, index) => h("option", { value: each.run_id, selected: index === 0 }, `${when(each.started_at)}  ${each.status}  ${each.task.slice(0, 70)}`)));
    dialog("Compare with another run", field("Run", select), {
      confirm: "Compare", action: async (form) => form.get("other"),
      done: (other) => {
        location.hash = `#/compare/${part(this.run.run_id)}/${part(other)}`;
      },
    });
  }

  // --- what waits for a person -----------------------------------------------------------------------------

  // A card stays while its request waits: somebody may be writing in it.
  drawWaiting() {
    const wanted = new Map(this.document.waiting.map((each) => [`${each.id} ${this.can.answer}`, each]));
    for (const [key, card] of this.cards) {
      if (wanted.has(key)) continue;
      card.remove();
      this.cards.delete(key);
    }
    for (const [key, each] of wanted) {
      if (this.cards.has(key)) continue;
      this.cards.set(key, this.card(each));
      this.waiting.append(this.cards.get(key));
    }
  }

  card({ kind, id, request, row }) {
    const send = async (body, buttons) => {
      for (const each of buttons) each.disabled = true;
      try {
        await post(`runs/${part(this.run.run_id)}/answers`, { kind, id, ...body });
        announce("Sent.");
      } catch (error) {
        problem.textContent = error.message;
        for (const each of buttons) each.disabled = false;
      }
    };
    const problem = h("p", { class: "form-problem", role: "alert" });
    const seen = button("Show the call", () => this.choose(this.rows.get(row), true), { class: "quiet" });
    let title, content, controls;
    if (kind === "approval") {
      title = `${visible(request.tool_name)} waits for approval`;
      const reason = h("input", { type: "text", "aria-label": "Reason", placeholder: "Reason; the model is told why it is denied", autocomplete: "off" });
      const approve = button("Approve", () => send({ approved: true, reason: reason.value }, [approve, deny]), { class: "primary" });
      const deny = button("Deny", () => send({ approved: false, reason: reason.value }, [approve, deny]), { class: "danger" });
      content = [
        h("p", {}, `${request.risk} risk`), request.notice && h("p", {}, visible(request.notice)),
        (request.copied ?? []).map((each) => h("p", { class: "hint" }, visible(each))), text(request.arguments ?? {}),
      ];
      controls = [approve, deny, reason];
    } else {
      const isCall = kind === "call";
      title = isCall ? `${visible(request.tool_name)} waits for its result` : "The model asks";
      const given = h("textarea", { rows: "2", "aria-label": isCall ? "Result" : "Answer" });
      const submit = button(isCall ? "Deliver" : "Answer", () => send({ value: isCall ? parsed(given.value) : given.value }, [submit]), { class: "primary" });
      const options = (request.options ?? []).map((each) => button(each, () => send({ value: each }, [submit])));
      content = isCall ? text(request.arguments ?? {}) : h("p", { class: "asked" }, request.text ?? "");
      controls = [options, given, submit];
    }
    return h("section", { class: "card" }, h("h2", {}, title), content,
      this.can.answer ? h("div", { class: "buttons" }, controls, seen) : h("p", { class: "hint" }, "It can be settled where the run is under way."), problem);
  }

  // --- tabs ----------------------------------------------------------------------------------------------

  views() {
    const { plan, tree, attempts } = this.document;
    return [
      ["timeline", "Timeline"], plan && ["plan", "Plan"], tree && ["tree", "Tree of thoughts"],
      attempts.length && ["attempts", `Attempts (${attempts.length})`], this.children.length && ["agents", `Sub-agents (${this.children.length})`], ["usage", "Usage and end"],
    ].filter(Boolean);
  }

  drawTabs() {
    const views = this.views();
    const key = JSON.stringify([views, this.tab]);
    if (key === this.tabsKey) return;
    this.tabsKey = key;
    const had = this.tabs.contains(document.activeElement);
    replace(this.tabs, views.map(([name, title]) => button(title, () => this.turnTo(name), {
      role: "tab", "aria-selected": String(name === this.tab), "aria-controls": "panel", tabindex: name === this.tab ? "0" : "-1", "data-tab": name,
      onkeydown: (event) => {
        const at = views.findIndex(([each]) => each === name) + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0);
        if (event.key.startsWith("Arrow") && views[at]) this.turnTo(views[at][0]);
      },
    })));
    if (had) this.tabs.querySelector("[aria-selected=true]")?.focus();
  }

  turnTo(name) {
    this.tab = name;
    this.panelKey = null;
    this.drawTabs();
    this.drawPanel();
  }

  drawPanel() {
    if (this.tab === "timeline") {
      if (this.panelKey !== "timeline") replace(this.panel, this.timeline);
      this.panelKey = "timeline";
      this.refill();
      return;
    }
    const { plan, tree, attempts, totals, ended } = this.document;
    const key = JSON.stringify([this.tab, plan, tree, attempts, totals, ended, this.children]);
    if (key === this.panelKey) return;
    this.panelKey = key;
    const made = { plan: () => this.plan(), tree: () => this.tree(), attempts: () => this.attempts(), agents: () => this.agents(), usage: () => this.usage() };
    replace(this.panel, made[this.tab]());
  }

  to(row) {
    if (!row) return;
    this.follows = false;
    this.turnTo("timeline");
    this.choose(row, true);
  }

  plan() {
    const { plan } = this.document;
    return h("div", { class: "sheet" }, h("div", { class: "head" }, h("h2", {}, plan.goal || "Plan"), status(plan.status)),
      diagram(this.diagrams.plan, { label: "Steps of the plan", choose: (box) => this.to(this.rows.get(plan.steps.find((each) => each.id === box.id)?.row)) }),
      h("ol", { class: "steps" }, plan.steps.map((each) => h("li", {}, h("div", { class: "step-line" }, h("span", { class: "label" }, each.id), h("strong", {}, each.title), status(each.status)),
        each.instruction && each.instruction !== each.title && h("p", {}, each.instruction), each.error && h("p", { class: "reason failed" }, each.error)))));
  }

  tree() {
    const { tree } = this.document;
    const kept = tree.nodes.filter((each) => !each.pruned_because).length;
    return h("div", { class: "sheet" }, h("div", { class: "head" }, h("h2", {}, "Tree of thoughts"), h("p", { class: "quiet" }, `${count(tree.nodes.length, "thought")}, ${kept} kept, ${tree.nodes.length - kept} pruned`)),
      diagram(this.diagrams.tree, { label: "Tree of thoughts" }),
      h("table", {}, h("caption", { class: "unseen" }, "Thoughts with their scores"), h("thead", {}, h("tr", {}, ["Thought", "Score", "Kept"].map((each) => h("th", { scope: "col", class: each === "Score" ? "number" : null }, each)))),
        h("tbody", {}, tree.nodes.map((each) => h("tr", { class: each.pruned_because ? "pruned" : null },
          h("td", { style: { "padding-left": `${each.depth * 20}px` } }, each.thought), h("td", { class: "number" }, each.score === null ? "–" : each.score.toFixed(2)),
          h("td", {}, each.pruned_because || (tree.chosen.includes(each.id) ? "followed" : "kept")))))));
  }

  attempts() {
    return h("div", { class: "sheet" }, h("h2", {}, "Attempts"), h("div", { class: "attempts" }, this.document.attempts.map((each) => h("article", { class: "attempt" },
      h("div", { class: "step-line" }, h("h3", {}, `Attempt ${each.number}`), each.critique && h("span", { class: `status ${each.accepted ? "done" : "waiting"}` }, h("span", { class: "dot", "aria-hidden": "true" }), each.accepted ? "accepted" : "not accepted"), each.score !== null && each.score !== undefined && h("span", { class: "figure" }, "score ", h("b", {}, each.score.toFixed(2)))),
      each.answer ? text(each.answer, { class: "text prose" }) : h("p", { class: "quiet" }, "No answer."),
      each.critique && h("div", { class: "critique" }, h("h4", {}, "Critique"), h("p", {}, each.critique)),
      button("Show in the timeline", () => this.to(this.rows.get(each.row)), { class: "quiet" })))));
  }

  agents() {
    return h("div", { class: "sheet" }, h("h2", {}, "Runs that its tools began"), h("table", {}, h("thead", {}, h("tr", {}, ["Task", "Status", "Took", "Tokens", "Cost"].map((each) => h("th", { scope: "col", class: ["Took", "Tokens", "Cost"].includes(each) ? "number" : null }, each)))),
      h("tbody", {}, this.children.map((each) => h("tr", {}, h("td", { class: "task" }, link(`run/${part(each.run_id)}`, {}, each.task || each.agent), h("span", { class: "under" }, each.agent)), h("td", {}, status(each.status)),
        h("td", { class: "number" }, duration(each.took_ms)), h("td", { class: "number" }, whole(each.tokens)), h("td", { class: "number" }, money(each.cost_usd)))))));
  }

  usage() {
    const { totals, ended } = this.document;
    const verdicts = [...this.rows.values()].filter((each) => each.kind === "policy" && !each.minor);
    return h("div", { class: "sheet" },
      section("Why it ended", ended ? facts([["Status", ended.status], ["Ended by", ended.terminated_by]]) : h("p", {}, "It is under way."), ended?.reason && text(ended.reason)),
      section("What policies said", verdicts.length ? h("ul", { class: "plain verdicts" }, verdicts.map((each) => h("li", {}, button(each.title, () => this.to(each), { class: "quiet" }), h("span", {}, each.note)))) : h("p", { class: "quiet" }, "No policy intervened.")),
      section("Usage by model", h("table", {}, h("thead", {}, h("tr", {}, ["Model", "Calls", "Tokens in", "Tokens out", "Time", "Cost"].map((each) => h("th", { scope: "col", class: each === "Model" ? null : "number" }, each)))),
        h("tbody", {}, totals.models.map((each) => h("tr", {}, h("td", {}, each.model), h("td", { class: "number" }, whole(each.calls)), h("td", { class: "number" }, whole(each.tokens_in)), h("td", { class: "number" }, whole(each.tokens_out)), h("td", { class: "number" }, duration(each.took_ms)), h("td", { class: "number" }, money(each.cost_usd))))))),
      section("The run", facts([["Id", this.run.run_id], ["User", this.run.user], ["Session", this.run.session], ["Tags", this.run.tags.join(", ")], ["Version", this.run.version], ["Events", whole(this.document.last)]])));
  }

  // --- the timeline --------------------------------------------------------------------------------------

  refill() {
    const wanted = [...this.rows.values()].filter((each) => (this.everything || !each.minor || each.state === "running") && (!this.search || `${each.title} ${each.note} ${each.label}`.toLowerCase().includes(this.search)));
    const last = wanted.at(-1);
    this.span = Math.max(1, this.run.duration_s === null ? (last?.at_ms ?? 1) : this.run.duration_s * 1000);
    this.withChildren = new Map(this.children.filter((each) => each.row !== null).map((each) => [each.row, each]));
    const wasAtEnd = this.isUnderWay && this.list.items.length > 0 && this.list.isAtEnd;
    this.list.set(wanted, wanted.findIndex((each) => each.id === this.selected));
    if (wasAtEnd) this.list.toEnd();
  }

  line(element, row) {
    let parts = element.parts;
    if (!parts) {
      parts = element.parts = {
        mark: h("span", { class: "mark", "aria-hidden": "true" }), title: h("span", { class: "row-title" }), note: h("span", { class: "row-note", dir: "auto" }),
        track: h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "bar" })), took: h("span", { class: "row-figure" }), cost: h("span", { class: "row-figure cost" }), state: h("span", { class: "unseen" }),
      };
      element.append(parts.mark, parts.title, parts.note, parts.state, parts.track, parts.took, parts.cost);
    }
    const isTimed = row.took_ms !== null || row.state === "running";
    element.className = `row ${row.kind} ${row.state} ${isTimed ? "" : "untimed"}`;
    element.style.setProperty("--depth", row.depth);
    parts.mark.textContent = MARKS[row.kind] ?? "·";
    parts.title.textContent = row.title;
    write(parts.note, this.withChildren?.has(row.id) ? `${row.note}  (sub-agent ${this.withChildren.get(row.id).agent})` : row.note);
    parts.took.textContent = duration(row.took_ms);
    const tokens = row.tokens_in === null && row.tokens_out === null ? "" : `${whole((row.tokens_in ?? 0) + (row.tokens_out ?? 0))} tok`;
    parts.cost.textContent = tokens;
    parts.state.textContent = row.state === "note" || row.state === "done" ? "" : row.state;
    const bar = parts.track.firstChild;
    const left = Math.min(99.5, (100 * row.at_ms) / this.span);
    const width = row.took_ms === null ? 100 - left : Math.min(100 - left, (100 * row.took_ms) / this.span);
    bar.style.setProperty("left", `${left}%`);
    bar.style.setProperty("width", `max(2px, ${width}%)`);
  }

  choose(row, moved = false) {
    if (!row) return;
    this.selected = row.id;
    if (moved) {
      const at = this.list.items.findIndex((each) => each.id === row.id);
      if (at >= 0) this.list.select(at, false);
    }
    history.replaceState(null, "", `#/run/${part(this.run.run_id)}/${row.id}`);
    this.timeline.classList.toggle("inspecting", !moved || this.timeline.classList.contains("inspecting"));
    clearTimeout(this.waitToLoad);
    if (this.follows) this.reload();
    else this.waitToLoad = setTimeout(() => this.reload(), 40);
  }

  // What a person chooses is loaded at once; what is followed, one after the other: steps may come faster.
  async reload() {
    if (this.follows && this.loading) {
      this.isLate = true;
      return;
    }
    const id = this.selected;
    const loading = new AbortController();
    this.loading?.abort();
    this.loading = loading;
    try {
      const known = await get(`runs/${part(this.run.run_id)}/rows/${id}`, loading.signal);
      await released();
      if (!this.isHere() || (id !== this.selected && !this.follows)) return;
      const top = this.inspector.scrollTop;
      const isSame = this.shownRow === id;
      const children = this.children.filter((each) => each.row === id);
      replace(this.inspector, button("Back to the steps", () => this.back(), { class: "quiet narrow-only" }), detail({ ...known, children }, { run: this.run, can: this.can }));
      this.inspector.scrollTop = isSame ? top : 0;
      this.shownRow = id;
    } catch (error) {
      if (error.name !== "AbortError" && this.isHere()) replace(this.inspector, failure(error, () => this.reload()));
    } finally {
      if (this.loading === loading) this.loading = null;
      if (this.isLate && !this.loading) {
        this.isLate = false;
        this.reload();
      }
    }
  }

  back() {
    this.timeline.classList.remove("inspecting");
    this.list.element.focus();
  }
}

const sessionOf = ({ session, user }) => (user && session.startsWith(`${user}:`) ? session.slice(user.length + 1) : session);
const figure = (value, name) => value !== "" && h("span", { class: "figure" }, h("b", {}, value), ` ${name}`);
const figures = (number, name) => figure(whole(number), number === 1 ? name : `${name}s`);
