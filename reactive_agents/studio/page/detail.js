// What is known of one row of a run.

import { button, choice, count, dialog, duration, facts, field, folded, h, link, money, notice, section, status, text, visible, whole } from "./dom.js";
import { parsed, part, post } from "./api.js";

const PROSE = { class: "text prose" };

export function detail(known, { run, can }) {
  const { row } = known;
  const made = { turn, question: turn, tool, answer, result: answer, policy, step: plain, end: ended }[row.kind] ?? plain;
  return h("div", { class: "detail" },
    h("div", { class: "detail-head" },
      h("h2", {}, row.title), row.state !== "note" && status(row.state),
      row.label && h("span", { class: "label" }, row.label)),
    made(known),
    known.fork_step && can.fork ? forkPart(known, run) : null);
}

function figures(row, more = []) {
  return facts([
    ["Took", duration(row.took_ms)], ["After", duration(row.at_ms)],
    ["Tokens in", whole(row.tokens_in)], ["Tokens out", whole(row.tokens_out)], ["Cost", row.cost_usd === null ? "" : money(row.cost_usd)], ...more,
  ]);
}

// --- turns and other questions to a model ----------------------------------------------------------------

function turn(known) {
  const { row, response, error, request } = known;
  const recorded = row.state === "recorded";
  return h("div", {},
    figures(row, [["Model", known.model], ["Finished by", response?.finish_reason], ["Temperature", request?.temperature]]),
    recorded && h("p", { class: "hint" }, "A recorded answer: the model was not asked again, so this attempt has no request."),
    error && section("Failed", text(error)),
    section("Said",
      response ? said(response) : h("p", { class: "quiet" }, error ? "Nothing." : row.state === "running" ? "The model is thinking…" : "The log has no answer of this call.")),
    known.messages && changes(known),
    known.messages && folded(`All that the model saw: ${count(known.messages.length, "message")}, ${count(known.tools.length, "tool")}`,
      () => h("div", { class: "messages" }, known.messages.map(message),
        known.tools.length ? h("div", { class: "message" }, h("div", { class: "message-head" }, h("span", { class: "role" }, "Tools")),
          known.tools.map((each) => folded(each.name, () => h("div", {}, text(each.description ?? ""), text(each.parameters ?? each)))) ) : null)),
    known.refused?.length ? section("Attempts before the answer", text(known.refused)) : null);
}

function said(response) {
  const calls = response.tool_calls ?? [];
  return h("div", { class: "said" },
    response.thinking && folded(`Thinking, ${count(response.thinking.length, "character")}`, () => text(response.thinking, { class: "text thinking" }), !response.content && !calls.length),
    response.content && text(response.content, PROSE),
    calls.map((each) => h("div", { class: "call" }, h("div", { class: "message-head" }, h("span", { class: "role" }, `Calls ${each.name}`)),
      each.malformed ? text(each.malformed) : text(each.arguments),
      (each.repairs ?? []).map((repair) => h("p", { class: "hint" }, repair)))));
}

function changes(known) {
  const fresh = known.messages.filter((each) => each.is_new);
  const title = known.turn_before ? `New since ${known.turn_before}` : "The request";
  return section(title,
    fresh.length ? h("div", { class: "messages" }, fresh.map(message)) : h("p", { class: "quiet" }, "No new message."),
    known.gone?.length ? folded(`Gone since then: ${count(known.gone.length, "message")}`, () => h("div", { class: "messages gone" }, known.gone.map((each) => message({ message: each })))) : null);
}

const ROLES = { SystemMessage: "Instructions", UserMessage: "User", AssistantMessage: "Model", ToolMessage: "Result" };

function message({ message: given, is_new: isNew }) {
  const role = ROLES[given.tag] ?? given.tag ?? "Message";
  const calls = given.tool_calls ?? [];
  return h("div", { class: `message ${(given.tag ?? "").toLowerCase()}` },
    h("div", { class: "message-head" }, h("span", { class: "role" }, given.tool_name ? `${role} of ${given.tool_name}` : role),
      isNew && h("span", { class: "label" }, "new"), given.is_error && h("span", { class: "label bad" }, "error")),
    given.content && text(given.content, PROSE),
    given.thinking && folded("Thinking", () => text(given.thinking, { class: "text thinking" })),
    calls.map((each) => h("div", { class: "call" }, h("span", { class: "role" }, `Calls ${each.name}`), text(each.arguments))),
    given.parts?.length ? h("p", { class: "hint" }, count(given.parts.length, "attachment")) : null);
}

// --- tools -----------------------------------------------------------------------------------------------

function tool(known) {
  const { row, approval } = known;
  return h("div", {},
    figures(row, [["Origin", known.origin], ["Call", known.call_id]]),
    approval && section("Approval", facts([
      ["Decision", approval.approved === null ? "waits" : approval.approved ? "approved" : "denied"],
      ["By", approval.by], ["Risk", approval.risk], ["Reason", approval.reason],
    ]), approval.notice && h("p", {}, visible(approval.notice)), (approval.copied ?? []).map((each) => h("p", { class: "hint" }, visible(each)))),
    section(approval?.asked ? "Arguments, as the approver changed them" : "Arguments", text(known.arguments ?? {})),
    approval?.asked ? section("Arguments of the model", text(approval.asked)) : null,
    known.ran && section("Runs of the tool, by its wrapper", known.ran.length ? known.ran.map((each) => text(each)) : h("p", { class: "quiet" }, "None: a wrapper answered.")),
    known.repairs?.length ? section("Repairs of the call", known.repairs.map((each) => h("p", {}, each))) : null,
    known.error ? section("Error", text(known.error)) : section("Result",
      known.has_result ? text(known.result ?? "nothing") : h("p", { class: "quiet" }, row.state === "waiting" ? "It waits for a person." : "It is under way.")),
    known.shown !== null && known.shown !== undefined && known.is_shortened ? folded("As the model saw it", () => text(known.shown)) : null,
    known.children?.length ? section("Runs that it began", h("ul", { class: "plain" }, known.children.map((each) =>
      h("li", {}, link(`run/${part(each.run_id)}`, {}, `${each.agent}: ${each.task}`), " ", status(each.status))))) : null);
}

// --- others ----------------------------------------------------------------------------------------------

function answer(known) {
  return h("div", {}, figures(known.row, [["Status", known.body.status], ["Ended by", known.body.terminated_by]]), section("Answer", text(known.body.answer ?? "", PROSE)));
}

function policy(known) {
  const { body } = known;
  return h("div", {}, figures(known.row),
    section("What the model is told, or why it ended", text(body.text ?? body.detail ?? body.reason ?? body)));
}

function ended(known) {
  const { result, error } = known.body;
  const reason = result?.reason || known.row.note;
  return h("div", {}, figures(known.row, [["Ended by", known.row.label]]), reason && section("Reason", text(reason, PROSE)),
    result?.output && section("Output", text(result.output, PROSE)),
    folded("All of the event", () => text(result ?? error ?? known.body)));
}

function plain(known) {
  return h("div", {}, figures(known.row), fieldsOf(known.body));
}

function fieldsOf(body) {
  const isEmpty = (value) => value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);
  return Object.entries(body ?? {}).filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => {
      const title = name.replaceAll("_", " ");
      if (typeof value === "object") return folded(title, () => text(value), JSON.stringify(value).length < 400);
      return section(title.charAt(0).toUpperCase() + title.slice(1), text(String(value)));
    });
}

// --- forks -----------------------------------------------------------------------------------------------

function forkPart(known, run) {
  const isTool = known.row.kind === "tool";
  return h("section", { class: "part fork" }, h("h3", {}, "What if?"),
    h("p", { class: "quiet" }, isTool
      ? "Begin a new run that shares all before this call, with another result, or with the call made again."
      : "Begin a new run that shares all before this turn, and goes on from here with another model or message."),
    button("Fork from here", () => forkDialog(known, run, isTool)));
}

function forkDialog(known, run, isTool) {
  const result = h("textarea", { name: "tool_result", rows: "5" });
  const isText = typeof known.result === "string" && parsed(known.result) === known.result; // not "391", which is a number as JSON
  if (isTool && known.has_result) result.value = isText ? known.result : JSON.stringify(known.result, null, 2);
  const kind = isTool ? choice("kind", [["result", "with this result"], ["again", "make the call again"]], "result") : null;
  dialog("Fork the run", [
    h("p", { class: "quiet" }, `The new run shares ${count(known.fork_step - 1, "recorded step")}. What comes after is done once more, effects of tools as well.`),
    isTool && field("The call", kind),
    isTool && field("Result", result, "JSON, or a text."),
    field("Model", h("input", { name: "model", placeholder: known.model ?? "as before", autocomplete: "off" }), "Empty for the same model."),
    field("Message", h("textarea", { name: "message", rows: "3" }), "Shown to the model from here on; may be empty."),
  ].filter(Boolean), {
    confirm: "Fork and run",
    action: (form) => post(`runs/${part(run.run_id)}/fork`, {
      step: known.fork_step, model: form.get("model") || null, message: form.get("message") || null,
      ...(isTool && form.get("kind") === "result" ? { tool_result: parsed(form.get("tool_result")) } : {}),
    }),
    done: ({ run_id }) => {
      location.hash = `#/run/${part(run_id)}`;
    },
  });
}
