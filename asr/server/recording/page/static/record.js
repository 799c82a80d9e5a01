// The recording page: sentences are read one after the other; each take is sent while the next one is read.

import "./words.js";
import { acceptTake, discardTake, finish, getChecks, getSession, getTake, sendTake } from "./calls.js";
import { copyText } from "./clipboard.js";
import { showTexts, text, useOtherLanguage } from "./language.js";
import { LevelMeter } from "./level.js";
import { SentenceList } from "./list.js";
import { clockText } from "./player.js";
import { TakeQueue } from "./queue.js";
import { Session, hasTake } from "./session.js";
import { Taker } from "./takes.js";
import { setToken } from "./token.js";
import { byId, showButtons, showEnd, showProgress, showPrompt, write } from "./view.js";

const SHORTEST_TAKE_S = 0.25; // shorter ones are a slip of the finger
const LONGEST_TAKE_S = 58; // the server takes a minute
const RETRY_MS = 2000;
const SURE_MS = 3000;
const COME_BACK_MS = 1500; // after a take, within which nobody has begun to read the next sentence
const SETTLE_MS = 400; // after the sentence changed by itself, for a finger that was on its way

const audio = new Audio();
const meter = new LevelMeter(byId("level"));
const list = new SentenceList(byId("list"), (prompt) => jumpTo(prompt));
const taker = new Taker(onSamples, () => onLost());
const queue = new TakeQueue(sendTake, { onAnswer, onRefused, onChange: () => show() });
const state = { isOpen: false, isOpening: false, take: null, isPlaying: false, isSure: false };
let session = null;
let problem = null; // { code, message } of what went wrong, beside the problem of the queue
let notice = null; // [name, values] of the words of the last event
let isFinishing = false; // once all takes are on disk
let cameBackMs = -Infinity; // when the sentence changed by itself
let end = null; // the server's answer to the end

function show() {
  document.title = session?.speaker ? text("titleOf", { speaker: session.speaker }) : text("title");
  const current = queue.problem ?? problem;
  byId("problem").hidden = !current;
  write("problem", current ? problemWords(current) : "");
  byId("token-form").hidden = current?.code !== "invalid_api_key";
  byId("reading").hidden = !session || Boolean(end);
  byId("finish").hidden = byId("reading").hidden;
  byId("end").hidden = !end;
  if (end) showEnd(session, end, copyButton);
  if (!session || end) return;
  showProgress(session);
  showPrompt(session);
  showButtons(session, state);
  list.show(session.prompts, session.current);
  write("notice", noticeWords());
  byId("contradicted").hidden = !session.isContradicted;
}

function problemWords({ code, message }) {
  if (code === "network" && queue.length) return text("unsentGone", { count: queue.length });
  const values = { message, count: queue.length, port: location.port };
  return text(code in text("errors") ? `errors.${code}` : "errors.other", values);
}

function noticeWords() {
  const words = [state.take ? text("listening") : notice ? text(...notice) : ""];
  if (queue.length && !queue.problem) words.push(text("unsent", { count: queue.length }));
  return words.join(" ").trim();
}

function fail(error) {
  problem = { code: error.code ?? "other", message: error.message };
  show();
}

const numberOf = (prompt) => session.prompts.indexOf(prompt) + 1;

// --- takes

async function toggle() {
  if (end || !session) return;
  if (!state.isOpen) await openMicrophone();
  else if (state.take) await stop();
  else start();
}

async function openMicrophone() {
  if (state.isOpening) return;
  if (!navigator.mediaDevices?.getUserMedia) return fail({ code: "microphoneInsecure" });
  if (!globalThis.AudioWorkletNode) return fail({ code: "microphoneOld" });
  state.isOpening = true;
  problem = null;
  show();
  try {
    await taker.open();
    state.isOpen = true;
    notice = ["ready"];
    keepScreenOn();
  } catch (error) {
    const isKnown = error.name in text("errors");
    problem = { code: isKnown ? error.name : "microphoneOther", message: error.message };
  }
  state.isOpening = false;
  show();
}

// A telephone that is only read from would lock itself.
function keepScreenOn() {
  navigator.wakeLock?.request("screen").catch(() => {});
}

function onLost() {
  Object.assign(state, { isOpen: false, take: null });
  fail({ code: "microphoneLost" });
}

function onSamples(samples) {
  meter.add(samples, taker.rateHz, Boolean(state.take));
  if (!state.take) return;
  const takenS = state.take.numSamples / taker.rateHz;
  write("clock", clockText(takenS));
  if (takenS > LONGEST_TAKE_S) stop();
}

function start() {
  if (performance.now() - cameBackMs < SETTLE_MS) return;
  audio.pause();
  problem = null;
  meter.clear();
  write("clock", clockText(0));
  state.take = taker.begin();
  show();
}

async function stop() {
  const { take } = state;
  if (take.numSamples < SHORTEST_TAKE_S * taker.rateHz) {
    notice = ["tooShort"];
    cancel();
    return;
  }
  state.take = null;
  notice = null;
  const prompt = session.taken();
  advance();
  prompt.wav = await taker.end(take);
  queue.add(prompt.id, prompt.wav);
}

function cancel() {
  if (!state.take) return;
  taker.cancel(state.take);
  state.take = null;
  show();
}

function advance() {
  const next = session.next();
  if (next) session.show(next);
  show();
}

function onAnswer(id, answer) {
  const prompt = session.answered(id, answer);
  if (answer.state === "again") comeBackTo(prompt);
  else notice = ["onDisk", { number: numberOf(prompt) }];
  if (session.goalS && session.keptS >= session.goalS) notice = ["goal"];
  if (session.isDone) notice = ["done"];
  finishIfAsked();
}

function onRefused(id, error) {
  const problems = [{ kind: "refused", detail: error.message }];
  comeBackTo(session.answered(id, { state: "again", problems }));
  finishIfAsked();
}

// Who has not begun the next sentence reads this one again at once; else it comes up next.
function comeBackTo(prompt) {
  notice = ["comesAgain", { number: numberOf(prompt) }];
  const isLate = prompt !== session.last || performance.now() - session.lastMs > COME_BACK_MS;
  if (state.take || state.isPlaying || (isLate && session.current.state === "todo")) return;
  if (session.current !== prompt) cameBackMs = performance.now();
  session.show(prompt);
}

async function checkLoop() {
  for (let after = 0; session.checks; ) {
    try {
      const { last, results, contradicts_many: isContradicted } = await getChecks(after);
      after = last;
      session.isContradicted = isContradicted;
      for (const result of results) onCheck(result);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

function onCheck(result) {
  const isWaiting = !session.next(); // nothing is left to be read
  const before = session.byId(result.id)?.state;
  const prompt = session.checked(result);
  if (prompt?.state === "again" && before !== "again") {
    notice = ["comesAgain", { number: numberOf(prompt) }];
    if (isWaiting && !state.take) session.show(prompt);
  }
  show();
}

// --- what the buttons do

const withTake = () => (hasTake(session.current) ? session.current : session.last);

async function play() {
  const prompt = withTake();
  if (!audio.paused) return audio.pause();
  if (state.take || !hasTake(prompt)) return;
  try {
    const blob = prompt.wav ?? (await getTake(prompt.id));
    URL.revokeObjectURL(audio.src);
    audio.src = URL.createObjectURL(blob);
    await audio.play();
  } catch (error) {
    if (error.name !== "AbortError") fail({ code: "noTake", message: error.message });
  }
}

function again() {
  if (state.take) {
    taker.cancel(state.take);
    start();
  } else if (hasTake(session.current)) toggle();
  else if (session.last) jumpTo(session.last);
}

async function keep() {
  const prompt = session.current;
  if (state.take || prompt.state !== "again" || !hasTake(prompt)) return;
  if (prompt.wav) {
    session.taken();
    queue.add(prompt.id, prompt.wav, true);
    advance();
    return;
  }
  try {
    session.answered(prompt.id, { ...prompt, ...(await acceptTake(prompt.id)), state: "kept" });
    prompt.differences = [];
    if (session.current === prompt) advance();
    else show();
  } catch (error) {
    fail(error);
  }
}

async function discard() {
  const prompt = session.current;
  if (!state.isSure) {
    state.isSure = true;
    setTimeout(() => {
      state.isSure = false;
      show();
    }, SURE_MS);
    return show();
  }
  state.isSure = false;
  try {
    session.answered(prompt.id, { ...(await discardTake(prompt.id)), state: "todo" });
    Object.assign(prompt, { wav: null, differences: [] });
    show();
  } catch (error) {
    fail(error);
  }
}

function jumpTo(prompt) {
  if (state.take) return;
  session.show(prompt);
  show();
  byId("card").scrollIntoView({ block: "nearest" });
}

function move(step) {
  if (state.take) return;
  session.move(step);
  show();
}

function askToFinish() {
  if (state.take) return;
  isFinishing = true;
  finishIfAsked();
  show();
}

async function finishIfAsked() {
  if (!isFinishing || queue.length) return;
  isFinishing = false;
  try {
    end = await finish();
    problem = null;
    show();
    byId("end-title").focus();
  } catch (error) {
    fail(error);
  }
}

function copyButton(command) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text("copy");
  button.addEventListener("click", async () => {
    await copyText(command);
    button.textContent = text("copied");
    setTimeout(() => (button.textContent = text("copy")), 1500);
  });
  return button;
}

// --- the session

async function load() {
  try {
    session = new Session(await getSession());
  } catch (error) {
    if (session) return; // a later token was right
    fail(error);
    if (error.code !== "invalid_api_key") setTimeout(load, RETRY_MS);
    return;
  }
  problem = null;
  notice = [session.isDone ? "done" : "nothingYet"];
  list.fill(session.prompts);
  show();
  if (session.checks) checkLoop();
}

const KEYS = {
  " ": toggle,
  p: play,
  r: again,
  k: keep,
  Escape: cancel,
  ArrowRight: () => move(1),
  ArrowLeft: () => move(-1),
};

// A button that was reached by Tab is pressed by the space bar as everywhere.
function onKey(event) {
  const { key, target } = event;
  const action = KEYS[key.length > 1 ? key : key.toLowerCase()];
  const isTaken = target.closest("input, summary, pre") || (key === " " && target.closest("button"));
  if (!action || isTaken || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  if (session && !end) action();
}

const CLICKS = { record: toggle, card: toggle, back: () => move(-1), next: () => move(1), play, again, keep, discard, cancel };
for (const [id, action] of Object.entries(CLICKS)) byId(id).addEventListener("click", () => action());
byId("finish").addEventListener("click", askToFinish);
byId("continue").addEventListener("click", () => {
  end = null;
  show();
});
for (const name of ["play", "pause", "ended"]) {
  audio.addEventListener(name, () => {
    state.isPlaying = !audio.paused && !audio.ended;
    show();
  });
}
// after a click, the space bar is for recording again
document.addEventListener("click", (event) => event.detail && event.target.closest("button")?.blur());
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", () => state.isOpen && !document.hidden && keepScreenOn());
addEventListener("beforeunload", (event) => {
  if (!session?.isUnsent && !state.take) return;
  event.preventDefault();
  event.returnValue = ""; // older browsers ask for this
});
byId("language").addEventListener("click", () => {
  useOtherLanguage();
  show();
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value);
  problem = null;
  queue.retryNow();
  if (!session) load();
});
showTexts();
await load();
document.body.dataset.ready = "";
