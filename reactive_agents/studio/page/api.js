// Requests to the studio that served this page.

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function answered(response) {
  if (response.ok) return /^application\/json\b/.test(response.headers.get("content-type") ?? "") ? response.json() : response.text();
  let detail = `The studio answered with status ${response.status}.`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch { /* no problem document */ }
  if (response.status === 401) detail = "This page is no longer signed in. Open the address that the command printed once more.";
  throw new Problem(response.status, detail);
}

async function send(path, options) {
  try {
    return await answered(await fetch(`api/${path}`, options));
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Error("The studio does not answer. Is the command still running?");
  }
}

export const get = (path, signal) => send(path, { signal });

export const post = (path, body = {}) => send(path, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
});

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const part = encodeURIComponent;

// Follow a run; the browser goes on after the last event by itself when the stream breaks.
export function follow(runId, after, { changes, delta, state }) {
  const source = new EventSource(`api/runs/${part(runId)}/stream?after=${after}`);
  source.addEventListener("changes", (event) => changes(JSON.parse(event.data)));
  source.addEventListener("delta", (event) => delta(JSON.parse(event.data)));
  source.addEventListener("end", () => source.close());
  source.addEventListener("open", () => state?.(true));
  source.addEventListener("error", () => state?.(false));
  return () => source.close();
}
