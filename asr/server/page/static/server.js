// What the page asks of the server.

export class ServerError extends Error {
  constructor(code, message = "") {
    super(message);
    this.code = code;
  }
}

const STORED = "polyphone-token"; // until the tab is closed
let token = takeToken();

// Take the token out of the address, which is shown and kept in the history.
function takeToken() {
  const address = new URL(location);
  const sent = address.searchParams.get("token");
  if (sent === null) return storage()?.getItem(STORED) ?? "";
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
  storage()?.setItem(STORED, sent);
  return sent;
}

function storage() {
  try {
    return sessionStorage;
  } catch {
    return null; // the browser forbids it
  }
}

export function setToken(sent) {
  token = sent.trim();
  storage()?.setItem(STORED, token);
}

// How a WebSocket carries the token, which browsers let have no other header.
export function tokenProtocols() {
  const encoded = btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return token ? ["vosk", `bearer.${encoded}`] : [];
}

export function authorization() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function needsToken() {
  const answer = await fetch("v1/models", { headers: authorization() }).catch(() => null);
  return answer?.status === 401;
}

// Call onSegment for each segment of a recording as it is recognized; return the last part of the answer.
export async function transcribe(blob, name, hotWords, onSegment, signal) {
  const body = new FormData();
  body.append("hot_words", hotWords);
  body.append("file", blob, name);
  const answer = await reached(
    fetch("page/transcribe", { method: "POST", body, headers: authorization(), signal }),
  );
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: null }));
    throw new ServerError(error?.code ?? "other", error?.message ?? answer.statusText);
  }
  for await (const line of linesOf(answer.body)) {
    const part = JSON.parse(line);
    if (part.error) throw new ServerError(part.error.code, part.error.message);
    if (part.done) return part.done;
    onSegment(part.segment);
  }
  throw new ServerError("cut");
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reached(reader.read(), "cut");
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

// A promise of the network, whose failure has a code.
async function reached(promise, code = "network") {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : new ServerError(code, error.message);
  }
}
