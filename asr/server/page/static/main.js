// Puts the page together: audio comes in, its transcript is shown and kept.

import { Player, clockText } from "./player.js";
import { LiveText } from "./live.js";
import { Recorder } from "./recorder.js";
import { copyText } from "./clipboard.js";
import { showTexts, text, useOtherLanguage } from "./language.js";
import { needsToken, transcribe } from "./server.js";
import { errorText, lengthText } from "./texts.js";
import { setToken } from "./token.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const audio = byId("audio");
const player = new Player(
  { audio, canvas: byId("waveform"), play: byId("play"), time: byId("time"), duration: byId("duration") },
  (seconds) => transcript.showTime(seconds),
);
const transcript = new Transcript(byId("transcript"), (seconds) => player.playFrom(seconds));
const live = new LiveText((words) => showLive(words));
let recorder = null;
let running = null; // AbortController of the transcription in progress
let given = null; // what was last to be recognized, as `recognize` takes it
let kept = null; // { name, files } of the last transcript
let lastProblem = null; // a function that words it in the present language

function showProblem(words) {
  lastProblem = words;
  byId("problem").hidden = !words;
  byId("problem").textContent = words ? words() : "";
}

function showStatus(name) {
  const status = byId("status");
  status.classList.toggle("busy", name === "recognizing");
  if (name) status.dataset.text = name;
  else delete status.dataset.text;
  status.textContent = name ? text(name) : "";
}

function showLive(words) {
  byId("live").textContent = words;
  byId("live").hidden = !words;
}

function serverProblem(error) {
  const { maxS, maxMb: megabytes, maxWords: words, maxChars: chars } = document.body.dataset;
  return () => {
    const values = { length: lengthText(Number(maxS)), megabytes, words, chars, message: error.message };
    return errorText(error.code ?? "other", values);
  };
}

async function recognize(blob, name, isRecorded = false) {
  running?.abort();
  const mine = (running = new AbortController());
  given = [blob, name, isRecorded];
  if (!isRecorded) showLive("");
  showProblem(null);
  kept = null;
  transcript.clear();
  for (const id of ["failed", "keep", "legend"]) byId(id).hidden = true;
  byId("result").hidden = false;
  byId("file-name").textContent = name;
  showStatus("recognizing");
  player.load(blob);
  try {
    const onSegment = (segment) => {
      if (mine === running) transcript.add(segment);
    };
    const done = await transcribe(blob, name, byId("hot-words").value, onSegment, mine.signal);
    if (mine !== running) return;
    kept = { name, files: done.files };
    if (!recorder) showLive(""); // else it is that of the next one
    player.setDuration(done.duration_s);
    showStatus(!transcript.units.length ? "nothing" : done.is_doubtful ? "mistaken" : "");
    byId("keep").hidden = !transcript.units.length;
    byId("legend").hidden = !transcript.isRated;
  } catch (error) {
    if (mine !== running) return;
    showStatus("");
    byId("failed").hidden = false;
    byId("save").hidden = !isRecorded; // a file is where it was
    showProblem(serverProblem(error));
    if (error.code === "invalid_api_key") askForToken();
  }
}

function askForToken() {
  byId("token-form").hidden = false;
}

function showRecording(isOn) {
  byId("record").classList.toggle("on", isOn);
  byId("record-text").dataset.text = isOn ? "stop" : "record";
  byId("record-text").textContent = text(isOn ? "stop" : "record");
  byId("meter").hidden = !isOn;
  byId("drop").hidden = isOn;
  for (const id of ["again", "choose"]) byId(id).disabled = isOn;
}

function microphoneProblem(error) {
  const names = { NotAllowedError: "microphoneDenied", NotFoundError: "microphoneMissing" };
  const name = names[error.name];
  return () => (name ? text(name) : `${text("microphoneMissing")} (${error.message})`);
}

async function toggleRecording() {
  if (recorder) {
    byId("record").disabled = true; // an hour is resampled in some seconds
    live.close();
    let blob;
    try {
      blob = await recorder.stop();
    } finally {
      recorder = null;
      showRecording(false);
      byId("record").disabled = false;
    }
    await recognize(blob, `${text("recording")} ${new Date().toLocaleTimeString()}.wav`, true);
    return;
  }
  if (!navigator.mediaDevices) {
    showProblem(() => text("microphoneInsecure"));
    return;
  }
  audio.pause();
  showProblem(null);
  let numSamples = 0;
  const starting = new Recorder((samples) => {
    numSamples += samples.length;
    live.feed(samples);
    byId("clock").textContent = clockText(numSamples / starting.rateHz);
    const loudest = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    byId("level").style.width = `${Math.min(100, 140 * Math.sqrt(loudest))}%`;
  });
  byId("record").disabled = true;
  try {
    await starting.start();
    live.open(starting.rateHz, byId("hot-words").value);
    byId("clock").textContent = clockText(0);
    recorder = starting;
    showRecording(true);
  } catch (error) {
    showProblem(microphoneProblem(error));
  }
  byId("record").disabled = false;
}

async function copy() {
  await copyText(transcript.text);
  byId("copy").textContent = text("copied");
  setTimeout(() => (byId("copy").textContent = text("copy")), 1500);
}

function downloadTranscript(suffix) {
  const blob = new Blob([kept.files[suffix]], { type: "text/plain;charset=utf-8" });
  download(blob, `${kept.name.replace(/\.[^.]*$/, "")}.${suffix}`);
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replaceAll(":", "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function acceptDrops() {
  const { body } = document;
  let depth = 0; // of elements that the file was dragged into
  const mark = (change) => {
    depth = change ? depth + change : 0;
    body.classList.toggle("dragging", depth > 0);
  };
  body.addEventListener("dragenter", () => mark(1));
  body.addEventListener("dragleave", () => mark(-1));
  body.addEventListener("dragover", (event) => event.preventDefault());
  body.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(0);
    const [file] = event.dataTransfer.files;
    if (file && !recorder) recognize(file, file.name);
  });
}

byId("record").addEventListener("click", toggleRecording);
byId("choose").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", () => {
  const [file] = byId("file").files;
  if (file) recognize(file, file.name);
  byId("file").value = ""; // the same file may be chosen again
});
byId("again").addEventListener("click", () => recognize(...given));
byId("save").addEventListener("click", () => download(...given));
byId("copy").addEventListener("click", copy);
byId("play").addEventListener("relabel", showTexts);
byId("keep").addEventListener("click", (event) => {
  const { suffix } = event.target.dataset;
  if (suffix && kept) downloadTranscript(suffix);
});
byId("language").addEventListener("click", () => {
  useOtherLanguage();
  if (lastProblem) showProblem(lastProblem);
});
byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken(byId("token").value);
  const isWrong = await needsToken();
  byId("token-form").hidden = !isWrong;
  showProblem(isWrong ? () => errorText("invalid_api_key", {}) : null);
});
showTexts();
acceptDrops();
if (await needsToken()) askForToken();
document.body.dataset.ready = "";
