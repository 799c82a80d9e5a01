// Hands the samples of a microphone to the page, in pieces; it runs in the thread of the browser's audio.

const PIECE_SAMPLES = 4096; // unless the page asks for others

class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.piece = new Float32Array(processorOptions?.pieceSamples ?? PIECE_SAMPLES);
    this.filled = 0;
    this.ended = false;
    this.port.onmessage = () => {
      this.port.postMessage(this.piece.slice(0, this.filled));
      this.port.postMessage(null);
      this.ended = true;
    };
  }

  process([[samples]]) {
    for (const sample of samples ?? []) {
      this.piece[this.filled] = sample;
      this.filled += 1;
      if (this.filled === this.piece.length) {
        this.port.postMessage(this.piece.slice());
        this.filled = 0;
      }
    }
    return !this.ended;
  }
}

registerProcessor("capture", Capture);
