// What the page asks of the server.

import { authorization, errorOf, reached } from "./token.js";

async function asked(path, options = {}) {
  const answer = await reached(fetch(`record/${path}`, { ...options, headers: authorization() }));
  if (!answer.ok) throw Object.assign(await errorOf(answer), { status: answer.status });
  return answer;
}

async function fields(path, options) {
  return reached((await asked(path, options)).json());
}

const takePath = (id) => `takes/${encodeURIComponent(id)}`;

export const getSession = () => fields("session");
export const getTake = async (id) => (await asked(takePath(id))).blob();
export const sendTake = (id, wav, keep) =>
  fields(takePath(id) + (keep ? "?keep=1" : ""), { method: "POST", body: wav });
export const discardTake = (id) => fields(takePath(id), { method: "DELETE" });
export const acceptTake = (id) => fields(`${takePath(id)}/accept`, { method: "POST" });
export const getChecks = (after) => fields(`checks?after=${after}`);
export const finish = () => fields("finish", { method: "POST" });
