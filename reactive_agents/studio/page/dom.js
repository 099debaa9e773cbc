// Elements without markup: texts of models and tools only ever become text nodes, in which nothing is hidden.

const SVG = "http://www.w3.org/2000/svg";

// These hold texts of people and models, which say themselves from which side they are read.
const WITH_DIRECTION = new Set(["h1", "p", "strong", "textarea"]);

export function h(name, properties, ...children) {
  const element = document.createElement(name);
  if (WITH_DIRECTION.has(name)) element.dir = "auto";
  assign(element, properties);
  append(element, children);
  return element;
}

export function svg(name, properties, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties ?? {})) element.setAttribute(key, String(value));
  append(element, children);
  return element;
}

const READ = new Set(["title", "aria-label", "placeholder"]);

function assign(element, properties) {
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "style") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : READ.has(key) ? plainly(value) : String(value));
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : plainly(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

// What is drawn anew while the pointer is pressed loses the click, as its release would meet another element.
let pressed = false;
const waiting = new Set();
for (const kind of ["pointerdown", "pointerup", "pointercancel", "blur"])
  addEventListener(kind, () => {
    pressed = kind === "pointerdown";
    if (!pressed) setTimeout(() => waiting.forEach((draw) => waiting.delete(draw) && draw())); // after the click
  }, true);

export const released = () => pressed && new Promise((draw) => waiting.add(draw));

export function write(element, value) {
  element.textContent = plainly(value);
}

// Names beside each other, in their order from whichever side each is read.
export function beside(...names) {
  return names.filter(Boolean).map((name, number) => [number > 0 && " · ", h("bdi", {}, name)]);
}

// Only paths of this page: an address out of a run is never a link.
export function link(hash, properties, ...children) {
  return h("a", { ...properties, href: `#/${hash}` }, ...children);
}

export function button(text, onclick, properties) {
  return h("button", { type: "button", onclick, ...properties }, text);
}

// --- figures ---------------------------------------------------------------------------------------------

const WHOLE = new Intl.NumberFormat("en-US");
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const whole = (value) => (value === null || value === undefined ? "" : WHOLE.format(value));

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, "0")} m`;
}

export function money(value) {
  if (value === null || value === undefined) return "";
  if (value === 0) return "$0";
  if (value > 0 && value < 0.0001) return "<$0.0001";
  return value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`;
}

export const count = (number, of) => `${whole(number)} ${of}${number === 1 ? "" : "s"}`;

export function when(text, full = false) {
  const date = new Date(text);
  if (Number.isNaN(date.valueOf())) return "";
  return (full ? FULL : DATE).format(date);
}

// --- parts of pages --------------------------------------------------------------------------------------

const STATES = {
  running: "running", completed: "done", done: "done", ok: "done", valid: "done",
  failed: "failed", cancelled: "failed", denied: "failed", interrupted: "waiting", queued: "waiting",
  partial: "waiting", waiting: "waiting", paused: "waiting", abstained: "waiting",
};

export const tone = (state) => STATES[state] ?? "quiet";

export function status(state) {
  return h("span", { class: `status ${tone(state)}` }, h("span", { class: "dot", "aria-hidden": "true" }), state);
}

export function notice(title, text, ...more) {
  return h("div", { class: "notice" }, h("h2", {}, title), text && h("p", {}, text), ...more);
}

export function failure(error, again) {
  return h("div", { class: "notice problem", role: "alert" },
    h("h2", {}, "That did not work"), h("p", {}, error.message ?? String(error)),
    again && button("Try again", again));
}

const LONGEST = 4000;
const UNSEEN = /(?![ \n\t])[\p{C}\p{Z}\p{DI}\u2800\u{1d159}]/gu;
// Prose has blanks of several widths, joined letters and emojis, and characters that this browser does not know.
const UNSEEN_IN_PROSE = /(?![\n\t\r\u200c\u200d\ufe00-\ufe0f])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu;

// A text with each character that is not seen, or that turns its direction, as \u{202e}.
export function visible(value, unseen = UNSEEN) {
  return String(value).replace(unseen, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

export const plainly = (value) => visible(value, UNSEEN_IN_PROSE);

// A text or other value; a long one is cut until somebody wants all of it.
export function text(value, properties) {
  const shown = typeof value === "string" ? plainly(value) : visible(JSON.stringify(value, null, 2) ?? "");
  const dir = typeof value === "string" && "auto";
  const block = h("pre", { class: "text", tabindex: "0", role: "group", "aria-label": "Text", dir, ...properties });
  if (shown.length <= LONGEST) {
    block.textContent = shown;
    return block;
  }
  block.textContent = shown.slice(0, LONGEST);
  const more = button(`Show all ${whole(shown.length)} characters`, () => {
    block.textContent = shown;
    more.remove();
  }, { class: "quiet" });
  return h("div", { class: "cut" }, block, more);
}

export function section(title, ...content) {
  return h("section", { class: "part" }, h("h3", {}, title), ...content);
}

export function folded(title, content, open = false) {
  const details = h("details", { open }, h("summary", {}, title));
  let made = false;
  const fill = () => {
    if (details.open && !made) {
      made = true;
      details.append(content());
    }
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

let announcer;
export function announce(message) {
  announcer ??= document.getElementById("announcer");
  announcer.textContent = message;
}

// --- dialogs ---------------------------------------------------------------------------------------------

export function dialog(title, body, { confirm, action, danger = false, done }) {
  const problem = h("p", { class: "form-problem", role: "alert" });
  const submit = h("button", { class: danger ? "danger" : "primary", type: "submit" }, confirm);
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), ...[body].flat(), problem,
    h("div", { class: "buttons" }, button("Cancel", () => element.close()), submit));
  const element = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      const result = await action(new FormData(form));
      element.close();
      done?.(result);
    } catch (error) {
      problem.textContent = error.message;
      submit.disabled = false;
    }
  });
  element.addEventListener("close", () => element.remove());
  document.body.append(element);
  element.showModal();
  return element;
}

let fields = 0;
export function field(label, input, hint) {
  const id = `field-${++fields}`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, label), input,
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint));
}

export function choice(name, options, value, properties) {
  const select = h("select", { name, ...properties }, options.map((each) => {
    const [key, label] = Array.isArray(each) ? each : [each, each];
    return h("option", { value: key }, label);
  }));
  if (value !== undefined) select.value = value;
  return select;
}
