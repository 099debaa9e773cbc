// New runs, and runs from files.

import { announce, choice, dialog, field, h } from "./dom.js";
import { part, post } from "./api.js";

export function newRun(state, given = {}) {
  if (!state.agents.length) {
    return dialog("No agent is loaded", [
      h("p", {}, "The studio starts runs of the agents whose configuration it was given:"),
      h("pre", { class: "text" }, "reactive-agents studio agent.toml"),
    ], { confirm: "All right", action: async () => {} });
  }
  const task = h("textarea", { name: "task", rows: "5", required: true, value: given.task });
  const element = dialog("New run", [
    field("Agent", choice("agent", state.agents.map((each) => [each.name, each.model ? `${each.name} (${each.model})` : each.name]), given.agent)),
    field("Task", task),
    h("div", { class: "columns" },
      field("Session", h("input", { name: "session", value: given.session ?? "", autocomplete: "off" }), "Empty for none: the run begins without history."),
      field("User", h("input", { name: "user", value: given.user ?? "", autocomplete: "off" }))),
  ], {
    confirm: "Start",
    action: (form) => post("runs", {
      agent: form.get("agent"), task: form.get("task"), session: form.get("session") || null, user: form.get("user") || null,
    }),
    done: ({ run_id }) => {
      location.hash = `#/run/${part(run_id)}`;
    },
  });
  task.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) task.form.requestSubmit();
  });
  task.focus();
  return element;
}

export function openFile() {
  const input = h("input", { type: "file", name: "file", accept: ".jsonl,.json,application/x-ndjson", required: true });
  dialog("Open a file", [
    field("File of a run", input, "A file that “Save as a file” or “reactive-agents runs export” wrote. It is shown until the studio ends, and stored nowhere."),
  ], {
    confirm: "Open",
    action: async () => post("open", { text: await input.files[0].text() }),
    done: ({ run_ids }) => {
      announce("Opened.");
      location.hash = `#/run/${part(run_ids[0])}`;
    },
  });
}

// A file for the person at the browser: made here, so that nothing is written by the server.
export function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const anchor = h("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
