// The page: which part of it an address shows, and what is on every part.

import { announce, button, failure, link, replace } from "./dom.js";
import { connection, get } from "./api.js";
import { runsPage } from "./runs.js";
import { runPage } from "./run.js";
import { comparePage } from "./compare.js";
import { auditPage, budgetsPage, memoryPage, personasPage, sessionsPage } from "./records.js";
import { newRun, openFile } from "./start.js";

const PAGES = [
  ["runs", "Runs", runsPage],
  ["sessions", "Sessions", sessionsPage],
  ["memory", "Memory", memoryPage],
  ["budgets", "Budgets", budgetsPage],
  ["audit", "Audit", auditPage],
  ["personas", "Personas", personasPage],
];
const OTHERS = { run: runPage, compare: comparePage };

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let leave = () => {};
let state = null;
let turn = 0;

async function show() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decode);
  const known = PAGES.find(([key]) => key === name);
  const page = known?.[2] ?? OTHERS[name] ?? runsPage;
  const here = known ? name : "runs";
  document.title = `${known?.[1] ?? "Runs"} · Studio`;
  for (const each of nav.children) {
    if (each.dataset.page === here) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  leave();
  leave = () => {};
  const mine = ++turn;
  try {
    state ??= await get("state");
    if (mine !== turn) return;
    const parameters = new URLSearchParams(query);
    const left = await page(main, { state, rest, parameters, isHere: () => mine === turn, reload: show });
    if (mine === turn) leave = left ?? (() => {});
    else left?.();
  } catch (error) {
    if (error.name !== "AbortError" && mine === turn) replace(main, failure(error, show));
  }
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// --- dark and light --------------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

function theme(next) {
  const chosen = THEMES.includes(next) ? next : "auto";
  document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("theme", chosen);
  } catch { /* the browser keeps nothing */ }
  return chosen;
}

function themeButton() {
  let now = theme(stored());
  const toggle = button("◐", () => {
    now = theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
    toggle.setAttribute("aria-label", NAMES[now]);
    toggle.title = NAMES[now];
    announce(NAMES[now]);
  }, { class: "icon", "aria-label": NAMES[now], title: NAMES[now] });
  return toggle;
}

function stored() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return "auto";
  }
}

// --- the connection --------------------------------------------------------------------------------------

const banner = document.getElementById("connection");
connection.addEventListener("problem", ({ detail }) => {
  if (banner.textContent === detail) return;
  banner.textContent = detail;
  banner.hidden = !detail;
});

// --- keys ------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") {
    const search = main.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
  if (event.key === "n" && state?.agents.length) {
    event.preventDefault();
    newRun(state);
  }
});

replace(nav, PAGES.map(([key, title]) => link(key, { "data-page": key }, title)));
replace(document.getElementById("top-actions"),
  button("Open a file", () => openFile(), { class: "quiet wide-only", title: "Open a run that was saved as a file" }),
  button("New run", async () => {
    try {
      state ??= await get("state");
    } catch {
      return; // the page says so already
    }
    newRun(state);
  }, { class: "primary" }),
  themeButton());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
if (!location.hash) history.replaceState(null, "", "#/runs");
addEventListener("hashchange", show);
show();
