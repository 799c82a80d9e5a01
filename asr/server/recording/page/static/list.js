// The list of all sentences with their states, in which one jumps to any.

import { text } from "./language.js";
import { element } from "./sentence.js";

export class SentenceList {
  // onChoose receives the prompt that was clicked.
  constructor(list, onChoose) {
    this.list = list;
    this.onChoose = onChoose;
    this.rows = new Map(); // id -> { button, state }
  }

  fill(prompts) {
    this.rows.clear();
    const items = prompts.map((prompt) => {
      const [item, button, state] = [element("li"), element("button", "sentence-row"), element("span", "state")];
      button.type = "button";
      const words = element("span", "words", prompt.text);
      words.translate = false;
      button.append(words, state);
      button.addEventListener("click", () => this.onChoose(prompt));
      item.append(button);
      this.rows.set(prompt.id, { button, state });
      return item;
    });
    this.list.replaceChildren(...items);
  }

  show(prompts, current) {
    for (const prompt of prompts) {
      const { button, state } = this.rows.get(prompt.id);
      showState(state, prompt.state);
      if (prompt === current) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }
}

export function showState(target, state) {
  if (target.dataset.state === state && target.textContent === text("states")[state]) return;
  target.dataset.state = state;
  target.textContent = text("states")[state];
}
