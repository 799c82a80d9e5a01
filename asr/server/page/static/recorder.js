// Opens the microphone, and records from it.

const SPEECH_RATE_HZ = 16_000; // of what models are trained on: an hour is within the limits of a server

const { AudioContext = globalThis.webkitAudioContext } = globalThis; // the name in older versions of Safari

export class Microphone {
  // onSamples receives each piece as Float32Array; onLost is called when the device goes away.
  constructor(onSamples, onLost = () => {}) {
    this.onSamples = onSamples;
    this.onLost = onLost;
  }

  // The browser asks the person; it throws a DOMException if it may not or cannot record. wishes are constraints of
  // the track, pieceSamples the length of each piece. Safari needs a touch or a key for this.
  async open(wishes = {}, pieceSamples = undefined) {
    this.context = new AudioContext();
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, ...wishes } });
      await this.context.resume();
      await this.context.audioWorklet.addModule(new URL("capture.js", import.meta.url));
      const options = { numberOfOutputs: 0, processorOptions: { pieceSamples } };
      this.capture = new AudioWorkletNode(this.context, "capture", options);
      this.ended = new Promise((resolve) => {
        this.capture.port.onmessage = ({ data }) => {
          if (data === null) resolve();
          else this.onSamples(data);
        };
      });
      this.source = this.context.createMediaStreamSource(this.stream); // Firefox stops one that nothing refers to
      this.source.connect(this.capture);
      for (const track of this.stream.getTracks()) track.addEventListener("ended", this.onLost);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  get rateHz() {
    return this.context.sampleRate;
  }

  // Wait for the last samples, and let the device go.
  async close() {
    this.capture.port.postMessage("end");
    await this.ended;
    this.release();
  }

  release() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.context?.close();
  }
}

export class Recorder {
  // onSamples receives each piece as Float32Array.
  constructor(onSamples) {
    this.pieces = [];
    this.microphone = new Microphone((samples) => {
      this.pieces.push(samples);
      onSamples(samples);
    });
  }

  async start() {
    await this.microphone.open();
  }

  get rateHz() {
    return this.microphone.rateHz;
  }

  // Return the recording as a WAV file, of 16 kHz at most.
  async stop() {
    await this.microphone.close();
    return speechFile(this.pieces, this.rateHz);
  }
}

// Return a WAV file of 16 kHz at most; of the rate of the samples if the browser lacks the memory for another one.
export async function speechFile(pieces, rateHz) {
  const whole = wavFile(pieces, rateHz);
  if (rateHz <= SPEECH_RATE_HZ) return whole;
  try {
    // a decoder's filter: Chromium plays buffers of other rates without one, so that high tones come back as low ones
    const context = new OfflineAudioContext(1, 1, SPEECH_RATE_HZ);
    const decoded = await context.decodeAudioData(await whole.arrayBuffer());
    return wavFile([decoded.getChannelData(0)], SPEECH_RATE_HZ);
  } catch {
    return whole;
  }
}

// Return a WAV file of 16-bit samples, one channel.
export function wavFile(pieces, rateHz) {
  const numSamples = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * numSamples));
  const put = (offset, letters) => [...letters].forEach((c, i) => view.setUint8(offset + i, c.charCodeAt(0)));
  put(0, "RIFF");
  view.setUint32(4, 36 + 2 * numSamples, true);
  put(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // bytes of the format
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, rateHz, true);
  view.setUint32(28, 2 * rateHz, true);
  view.setUint16(32, 2, true); // bytes of a frame
  view.setUint16(34, 16, true); // bits
  put(36, "data");
  view.setUint32(40, 2 * numSamples, true);
  let offset = 44;
  for (const piece of pieces) {
    for (const sample of piece) {
      view.setInt16(offset, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
      offset += 2;
    }
  }
  return new Blob([view], { type: "audio/wav" });
}
