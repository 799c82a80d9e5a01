// What the page asks of the server.

import { ServerError, authorization, errorOf, reached } from "./token.js";

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
  if (!answer.ok) throw await errorOf(answer);
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
