// The sentences of a person with the state of each: "todo", "sending", "kept" or "again".

export class Session {
  // answer is that of the server to GET /record/session.
  constructor(answer) {
    this.speaker = answer.speaker;
    this.language = answer.language;
    this.prompts = answer.prompts;
    this.checks = answer.checks; // whether takes are compared with their sentences in the background
    this.isContradicted = false; // whether the model contradicts too many takes to doubt any
    this.goalS = answer.goal_s;
    this.otherS = 0; // of takes of sentences that are no longer offered
    this.otherS = Math.max(0, answer.kept_s - this.keptS);
    this.postponed = new Set(); // of sentences to be read again that the person skipped
    this.last = null; // the sentence of the last take
    this.index = -1;
    this.index = Math.max(0, this.prompts.indexOf(this.next()));
  }

  get current() {
    return this.prompts[this.index];
  }

  get numKept() {
    return this.prompts.filter(({ state }) => state === "kept").length;
  }

  get isDone() {
    return this.numKept === this.prompts.length;
  }

  // Whether a take is not yet on disk.
  get isUnsent() {
    return this.prompts.some(({ state }) => state === "sending");
  }

  get keptS() {
    const durations = this.prompts.map(({ state, duration_s: durationS }) => (state === "kept" ? durationS : 0));
    return durations.reduce((sum, durationS) => sum + durationS, this.otherS);
  }

  byId(id) {
    return this.prompts.find((prompt) => prompt.id === id);
  }

  show(prompt) {
    this.index = this.prompts.indexOf(prompt);
  }

  // Return the sentence to read after the current one: those to be read again come first. null: all are recorded.
  next() {
    const after = this.prompts.slice(this.index + 1);
    const isAgain = ({ state, id }) => state === "again" && !this.postponed.has(id);
    const isTodo = ({ state }) => state === "todo";
    const found = this.prompts.find(isAgain) ?? after.find(isTodo) ?? this.prompts.find(isTodo);
    return found ?? this.prompts.find(({ state }) => state === "again") ?? null;
  }

  move(step) {
    if (step > 0 && this.current.state === "again") this.postponed.add(this.current.id);
    this.index = Math.max(0, Math.min(this.prompts.length - 1, this.index + step));
  }

  // A take was made of the current sentence.
  taken() {
    const prompt = this.current;
    this.last = prompt;
    this.lastMs = performance.now();
    this.postponed.delete(prompt.id);
    Object.assign(prompt, { state: "sending", problems: [], differences: [] });
    return prompt;
  }

  // The server's answer to a take.
  answered(id, { state, problems, duration_s: durationS }) {
    const prompt = this.byId(id);
    Object.assign(prompt, { state, problems: problems ?? [], duration_s: durationS ?? 0 });
    if (state === "kept") prompt.wav = null; // the server has it
    return prompt;
  }

  // What the background check found; a take that is not yet on disk is newer than what was checked.
  checked({ id, state, differences }) {
    const prompt = this.byId(id);
    if (!prompt || prompt.state === "sending" || prompt.wav) return null;
    Object.assign(prompt, { state, differences: differences ?? [] });
    return prompt;
  }
}

export function hasTake(prompt) {
  return Boolean(prompt && (prompt.wav || prompt.state === "kept" || (prompt.state === "again" && prompt.duration_s)));
}
