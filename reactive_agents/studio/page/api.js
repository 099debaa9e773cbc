// Requests to the studio that served this page.

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// What the whole page has to tell of the connection: a text, empty while all is well.
export const connection = new EventTarget();
const tell = (detail) => connection.dispatchEvent(new CustomEvent("problem", { detail }));
const SILENT = "The studio does not answer. Is the command still running?";
const SIGNED_OUT = "This page is no longer signed in. Open the address that the command printed once more.";
const AGAIN_MS = 2000;

async function answered(response) {
  tell(response.status === 401 ? SIGNED_OUT : "");
  if (response.ok) return /^application\/json\b/.test(response.headers.get("content-type") ?? "") ? response.json() : response.text();
  let detail = `The studio answered with status ${response.status}.`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch { /* no problem document */ }
  if (response.status === 401) detail = SIGNED_OUT;
  throw new Problem(response.status, detail);
}

async function send(path, options) {
  try {
    return await answered(await fetch(`api/${path}`, options));
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    tell(SILENT);
    throw new Error(SILENT);
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

// What a person wrote: JSON, or else a text.
export function parsed(given) {
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

// Follow a run. The browser goes on after the last event by itself when the stream breaks, but not when it is
// refused, as by a studio that was started again.
export function follow(runId, after, { changes, delta, state, gone }) {
  let source, timer, last = after, left = false;
  const open = () => {
    source = new EventSource(`api/runs/${part(runId)}/stream?after=${last}`);
    source.addEventListener("changes", (event) => {
      last = event.lastEventId || last;
      changes(JSON.parse(event.data));
    });
    source.addEventListener("delta", (event) => delta(JSON.parse(event.data)));
    source.addEventListener("end", () => source.close());
    source.addEventListener("open", () => state?.(true));
    source.addEventListener("error", () => {
      state?.(false);
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(again, AGAIN_MS);
    });
  };
  const again = async () => {
    try {
      await get(`runs/${part(runId)}`);
      if (!left) open();
    } catch (error) {
      if (left) return;
      if (error.status === 404) gone?.(error);
      else timer = setTimeout(again, AGAIN_MS);
    }
  };
  open();
  return () => {
    left = true;
    clearTimeout(timer);
    source.close();
  };
}
