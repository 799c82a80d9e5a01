// Sends takes one after the other, and keeps those that the server has not confirmed.

const FIRST_WAIT_MS = 500; // before a take is sent once more; doubles up to the longest
const LONGEST_WAIT_MS = 5000;

// Whether a later attempt may succeed: no answer, the token to be entered, a busy server, a full disk.
function isTemporary({ code, status }) {
  return code === "network" || [401, 408, 429].includes(status) || status >= 500;
}

export class TakeQueue {
  // send is an async function of (id, wav, keep). onAnswer receives (id, answer), onRefused (id, error) for good;
  // onChange is called whenever the length or the problem is another.
  constructor(send, { onAnswer, onRefused, onChange }) {
    Object.assign(this, { send, onAnswer, onRefused, onChange });
    this.items = [];
    this.problem = null; // why takes wait
    this.retryNow = () => {};
  }

  get length() {
    return this.items.length;
  }

  // A take that waits is replaced by a newer one of the same sentence.
  add(id, wav, keep = false) {
    this.items = this.items.filter((item) => item.id !== id || item.isSent);
    this.items.push({ id, wav, keep, isSent: false });
    this.onChange();
    if (!this.running) this.running = this.run().finally(() => (this.running = null));
  }

  async run() {
    for (let waitMs = FIRST_WAIT_MS; this.length; ) {
      const [item] = this.items;
      item.isSent = true;
      try {
        const answer = await this.send(item.id, item.wav, item.keep);
        this.problem = null;
        waitMs = FIRST_WAIT_MS;
        this.settle(item, () => this.onAnswer(item.id, answer));
      } catch (error) {
        if (!isTemporary(error)) {
          this.settle(item, () => this.onRefused(item.id, error));
          continue;
        }
        this.problem = error;
        item.isSent = false; // so that a newer take replaces it
        this.onChange();
        await this.pause(waitMs);
        waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
      }
    }
  }

  // The answer to a take counts unless a newer take of the sentence waits.
  settle(item, then) {
    this.items = this.items.filter((other) => other !== item);
    if (!this.items.some(({ id }) => id === item.id)) then();
    this.onChange();
  }

  async pause(waitMs) {
    await new Promise((resolve) => {
      this.retryNow = resolve;
      setTimeout(resolve, waitMs);
    });
  }
}
