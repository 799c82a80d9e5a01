// Shows what is said while it is said, by the protocol of Vosk: each message of samples gets one answer.

import { tokenProtocols } from "./token.js";

export class LiveText {
  // onText receives all that was said until now, whenever it changes.
  constructor(onText) {
    this.onText = onText;
  }

  // rateHz is that of the samples, hotWords a line of favoured words. Without a connection there is no live text;
  // the recording is made all the same.
  open(rateHz, hotWords) {
    this.ended = ""; // text of the stretches of speech that have ended
    this.onText("");
    const address = new URL("vosk", document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address, tokenProtocols());
    this.socket.onopen = () => {
      const config = { sample_rate: rateHz, words: false, hot_words: hotWords };
      this.socket.send(JSON.stringify({ config }));
    };
    this.socket.onmessage = ({ data }) => this.show(JSON.parse(data));
  }

  feed(samples) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(Int16Array.from(samples, (sample) => Math.max(-1, Math.min(1, sample)) * 32767));
  }

  show({ partial, text, error }) {
    if (error !== undefined) return;
    if (text) this.ended += `${text} `;
    this.onText((this.ended + (partial ?? "")).trim());
  }

  close() {
    this.socket?.close();
  }
}
