// Shows the state of the session: where one is, what was found, what the buttons do.

import { text } from "./language.js";
import { showState } from "./list.js";
import { hasTake } from "./session.js";
import { element, placeOf, showSentence } from "./sentence.js";

export const byId = (id) => document.getElementById(id);
const minutes = (seconds) => (seconds / 60).toFixed(1);

// Write only what changed, so that a screen reader repeats nothing.
export function write(id, words) {
  if (byId(id).textContent !== words) byId(id).textContent = words;
}

export function showProgress(session) {
  const goalS = session.goalS || 1;
  const bar = byId("progress");
  write("speaker", session.speaker ? ` · ${session.speaker}` : "");
  bar.setAttribute("aria-valuemax", minutes(goalS));
  bar.setAttribute("aria-valuenow", minutes(Math.min(session.keptS, goalS)));
  byId("progress-bar").style.width = `${Math.min(100, (100 * session.keptS) / goalS)}%`;
  write("minutes", text("minutes", { done: minutes(session.keptS), goal: Math.round(goalS / 6) / 10 }));
  write("count", text("count", { kept: session.numKept, all: session.prompts.length }));
  bar.setAttribute("aria-valuetext", byId("minutes").textContent);
}

export function showPrompt(session) {
  const prompt = session.current;
  const shown = JSON.stringify([prompt.id, prompt.state === "again" && prompt.differences]);
  if (byId("sentence").dataset.shown !== shown) {
    byId("sentence").dataset.shown = shown;
    byId("sentence").lang = session.language || "";
    showSentence(byId("sentence"), prompt.state === "again" ? prompt : { ...prompt, differences: [] });
  }
  write("number", text("number", { number: session.index + 1 }));
  showState(byId("state"), prompt.state);
  byId("card").dataset.state = prompt.state;
  showVerdict(prompt);
}

// Show why a take is not kept, in words with what to do.
function showVerdict(prompt) {
  const lines = prompt.state === "again" ? verdictLines(prompt) : [];
  const list = byId("verdict");
  const shown = lines.join("\n");
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.hidden = !lines.length;
  list.replaceChildren(...lines.map((line) => element("li", "", line)));
  if (lines.length) list.append(element("li", "what-to-do", text("verdictNext")));
}

export function verdictLines(prompt) {
  const words = text("verdict");
  const characters = [...prompt.text];
  const problems = (prompt.problems ?? []).map(({ kind, detail }) =>
    kind in words ? text(`verdict.${kind}`, { message: detail }) : text("verdict.unknown", { message: detail ?? kind }),
  );
  const differences = (prompt.differences ?? []).map((difference) => {
    const place = placeOf(prompt, difference);
    const written = place ? characters.slice(...place).join("") : "";
    const isWorded = difference.kind in words && (difference.kind === "extra" || written);
    return text(`verdict.${isWorded ? difference.kind : "unclear"}`, { written, recognized: difference.recognized });
  });
  return [...new Set([...problems, ...differences])];
}

// isOpen: of the microphone; take: in progress; isPlaying: whether a take is played; isSure: the next press discards.
export function showButtons(session, { isOpen, isOpening, take, isPlaying, isSure }) {
  const prompt = session.current;
  const name = take ? "stop" : isOpen ? "record" : isOpening ? "microphoneWait" : "microphoneOn";
  write("record-text", text(name));
  byId("record").classList.toggle("on", Boolean(take));
  byId("record").disabled = isOpening;
  document.body.classList.toggle("recording", Boolean(take));
  const ownTake = hasTake(prompt);
  byId("back").disabled = Boolean(take) || session.index === 0;
  byId("next").disabled = Boolean(take) || session.index === session.prompts.length - 1;
  const lastTake = hasTake(session.last);
  write("play-text", text(isPlaying ? "playStop" : ownTake ? "play" : "playLast"));
  write("again-text", text(ownTake || take ? "again" : "againLast"));
  write("discard-text", text(isSure ? "discardSure" : "discard"));
  byId("play").hidden = Boolean(take) || !(ownTake || lastTake);
  byId("again").hidden = !(take || ownTake || session.last);
  byId("keep").hidden = Boolean(take) || !(prompt.state === "again" && ownTake);
  byId("discard").hidden = Boolean(take) || prompt.state !== "kept";
  byId("cancel").hidden = !take;
}

// counts: of the corpus, such as {train: 320}; next: of commands by name.
export function showEnd(session, { manifests, next }, copyButton) {
  const counts = { sentences: session.numKept, minutes: minutes(session.keptS), ...manifests };
  const names = text("counts");
  const rows = Object.entries(counts).map(([name, count]) => {
    const row = element("div");
    row.append(element("dt", "", names[name] ?? name), element("dd", "", String(count)));
    return row;
  });
  byId("counts").replaceChildren(...rows);
  const commands = Object.entries(next ?? {}).map(([name, command]) => {
    const block = element("div", "command");
    block.append(element("h3", "", text("commands")[name] ?? name), commandLine(command), copyButton(command));
    return block;
  });
  byId("commands").replaceChildren(...commands);
  byId("end-next").hidden = !commands.length; // of a corpus of several people, the terminal has them
}

function commandLine(command) {
  const line = element("pre", "", command);
  line.tabIndex = 0;
  line.translate = false;
  return line;
}
