// The token of the server, or the key of a person's link, and errors of the server.

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
  const sent = address.hash.slice(1) || address.searchParams.get("token");
  if (!sent) return storage()?.getItem(STORED) ?? "";
  address.searchParams.delete("token");
  address.hash = "";
  history.replaceState(null, "", address.href.replace(/#$/, ""));
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

// A promise of the network, whose failure has a code.
export async function reached(promise, code = "network") {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : new ServerError(code, error.message);
  }
}

// The error in an answer of the server.
export async function errorOf(answer) {
  const { error } = await answer.json().catch(() => ({ error: null }));
  return new ServerError(error?.code ?? "other", error?.message ?? answer.statusText);
}
