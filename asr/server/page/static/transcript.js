// Shows a transcript: what is written over how it is read, by segments with their times.

import { text } from "./language.js";
import { clockText } from "./player.js";

const LEVELS = [0.5, 0.7, 0.9]; // of confidence, from which the next colour begins

function element(name, className, content = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = content;
  return made;
}

export class Transcript {
  // onChoose receives the time in seconds of what was clicked.
  constructor(container, onChoose) {
    this.container = container;
    this.onChoose = onChoose;
    container.addEventListener("click", (event) => this.choose(event));
    container.addEventListener("keydown", (event) => this.onKey(event));
    this.clear();
  }

  clear() {
    this.container.replaceChildren();
    this.units = []; // { start, end, button }, in order
    this.texts = [];
    this.isRated = false;
    this.current = null;
  }

  get text() {
    return this.texts.join("\n");
  }

  add(segment) {
    this.texts.push(segment.text);
    const row = element("div", "segment");
    const time = element("button", "time quiet", clockText(segment.start_s));
    time.type = "button";
    time.dataset.start = segment.start_s;
    const line = element("p", "line");
    for (const unit of segment.units) line.append(this.unit(unit), "\u200b");
    const body = element("div", "body");
    body.append(line, ...this.alternatives(segment.alternatives));
    row.append(time, body);
    this.container.append(row);
  }

  unit({ text: written, reading, start_s: start, end_s: end, confidence }) {
    const button = element("button", "unit");
    button.type = "button";
    button.tabIndex = this.units.length ? -1 : 0; // one stop of the Tab key; arrows move within it
    button.dataset.start = start;
    button.append(element("span", "written", written));
    if (reading) button.append(element("span", "reading", reading));
    const parts = [`${written} ${reading}`.trim(), `${start.toFixed(2)} s`];
    if (confidence !== null) {
      this.isRated = true;
      button.classList.add(`c${LEVELS.filter((level) => confidence >= level).length}`);
      parts.push(`${Math.round(100 * confidence)} %`);
    }
    button.title = parts.slice(1).join(" · ");
    button.setAttribute("aria-label", parts.join(", "));
    this.units.push({ start, end, button });
    return button;
  }

  alternatives(texts) {
    if (!texts.length) return [];
    const details = element("details", "alternatives");
    const summary = element("summary", "note", text("alternatives"));
    summary.dataset.text = "alternatives";
    const list = element("ol", "");
    list.append(...texts.map((other) => element("li", "", other)));
    details.append(summary, list);
    return [details];
  }

  choose(event) {
    const button = event.target.closest("[data-start]");
    if (!button) return;
    if (button.classList.contains("unit")) this.focus(button);
    this.onChoose(Number(button.dataset.start));
  }

  onKey(event) {
    const place = this.units.findIndex(({ button }) => button === event.target);
    const places = {
      ArrowLeft: place - 1,
      ArrowRight: place + 1,
      Home: 0,
      End: this.units.length - 1,
    };
    if (place < 0 || !(event.key in places)) return;
    event.preventDefault();
    const next = this.units[places[event.key]];
    if (next) this.focus(next.button);
  }

  focus(button) {
    for (const unit of this.units) unit.button.tabIndex = unit.button === button ? 0 : -1;
    button.focus();
  }

  // Mark what is said at a time.
  showTime(seconds) {
    const found = this.units.find(({ start, end }) => start <= seconds && seconds < end)?.button ?? null;
    if (found === this.current) return;
    this.current?.classList.remove("now");
    found?.classList.add("now");
    this.current = found;
  }
}
