// Cuts takes out of what the microphone delivers all the time.

import { Microphone, wavFile } from "./recorder.js";

const BEFORE_S = 0.3; // of sound before the start that belongs to a take, for those who speak at once
const AFTER_S = 0.2; // of sound after the stop
const PIECE_SAMPLES = 1024; // 21 ms at 48 kHz, so that the ends are where they should be
const WISHES = { echoCancellation: false, noiseSuppression: false, autoGainControl: false }; // the sound as it is

class Take {
  constructor(pieces) {
    this.pieces = pieces;
    this.numSamples = 0; // since the start
    this.numMissing = Infinity; // until the take is complete
    this.whole = new Promise((resolve) => (this.resolve = resolve));
  }

  feed(samples) {
    this.pieces.push(samples);
    this.numSamples += samples.length;
    this.numMissing -= samples.length;
  }
}

export class Taker {
  // onSamples receives each piece as Float32Array; onLost is called when the device goes away.
  constructor(onSamples, onLost) {
    this.onSamples = onSamples;
    this.onLost = onLost;
    this.isOpen = false;
  }

  async open() {
    this.takes = []; // that still get samples; a take may begin before the one before it is complete
    this.before = [];
    const microphone = new Microphone(
      (samples) => this.feed(samples),
      () => this.lost(),
    );
    await microphone.open(WISHES, PIECE_SAMPLES);
    this.microphone = microphone;
    this.isOpen = true;
  }

  get rateHz() {
    return this.microphone.rateHz;
  }

  feed(samples) {
    for (const take of this.takes) take.feed(samples);
    this.complete((take) => take.numMissing <= 0);
    this.before.push(samples);
    const numKept = Math.ceil((BEFORE_S * this.rateHz) / samples.length);
    this.before = this.before.slice(-numKept);
    this.onSamples(samples);
  }

  complete(isComplete) {
    for (const take of this.takes.filter(isComplete)) take.resolve(wavFile(take.pieces, this.rateHz));
    this.takes = this.takes.filter((take) => !isComplete(take));
  }

  begin() {
    this.microphone.context.resume(); // Safari interrupts it while the telephone is locked
    const take = new Take([...this.before]);
    this.takes.push(take);
    return take;
  }

  // Return the take as a WAV file.
  end(take) {
    take.numMissing = AFTER_S * this.rateHz;
    return take.whole;
  }

  cancel(take) {
    this.takes = this.takes.filter((other) => other !== take);
  }

  lost() {
    this.isOpen = false;
    this.complete((take) => take.numMissing < Infinity);
    this.takes = [];
    this.microphone.release();
    this.onLost();
  }
}
