// Plays a recording, beside its waveform, on which one clicks, drags or uses the arrow keys.

const RATE_HZ = 8000; // of the decoded copy that is drawn: an hour takes 115 MB
const MAX_DRAWN_BYTES = 64 << 20; // larger files are played without a waveform
const STEP_S = 1;

export function clockText(seconds) {
  const whole = Math.floor(seconds || 0);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export class Player {
  // onTime receives the position in seconds whenever it changes.
  constructor({ audio, canvas, play, time, duration }, onTime) {
    Object.assign(this, { audio, canvas, play, time, durationText: duration, onTime });
    this.peaks = null;
    this.durationS = 0;
    play.addEventListener("click", () => this.toggle());
    for (const name of ["play", "pause", "ended"]) audio.addEventListener(name, () => this.showState());
    for (const name of ["seeked", "timeupdate"]) audio.addEventListener(name, () => this.moved());
    audio.addEventListener("loadedmetadata", () => this.setDuration(audio.duration));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.seekTo(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons && this.seekTo(event));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async load(blob) {
    URL.revokeObjectURL(this.audio.src);
    this.audio.src = URL.createObjectURL(blob);
    this.peaks = null;
    this.draw();
    this.moved();
    if (blob.size > MAX_DRAWN_BYTES) return;
    const loaded = this.audio.src;
    try {
      const context = new OfflineAudioContext(1, 1, RATE_HZ);
      const decoded = await context.decodeAudioData(await blob.arrayBuffer());
      if (this.audio.src !== loaded) return; // another recording was chosen meanwhile
      this.samples = decoded.getChannelData(0);
      this.setDuration(decoded.duration);
      this.draw();
    } catch {
      this.samples = null; // the server may read what this browser cannot
    }
  }

  setDuration(seconds) {
    if (!Number.isFinite(seconds)) return;
    this.durationS = seconds;
    this.durationText.textContent = clockText(seconds);
    this.canvas.setAttribute("aria-valuemax", seconds.toFixed(1));
    this.moved();
  }

  toggle() {
    if (this.audio.paused) this.audio.play().catch(() => {});
    else this.audio.pause();
  }

  playFrom(seconds) {
    this.seek(seconds);
    this.audio.play().catch(() => {});
  }

  seek(seconds) {
    this.audio.currentTime = Math.max(0, Math.min(seconds, this.durationS));
    this.moved();
  }

  seekTo(event) {
    const { left, width } = this.canvas.getBoundingClientRect();
    this.seek(((event.clientX - left) / width) * this.durationS);
  }

  onKey(event) {
    const now = this.audio.currentTime;
    const places = { ArrowLeft: now - STEP_S, ArrowRight: now + STEP_S, Home: 0, End: this.durationS };
    if (event.key in places) this.seek(places[event.key]);
    else if (event.key === " " || event.key === "Enter") this.toggle();
    else return;
    event.preventDefault();
  }

  showState() {
    const playing = !this.audio.paused;
    this.play.classList.toggle("playing", playing);
    this.play.dataset.label = playing ? "pause" : "play";
    this.play.dispatchEvent(new Event("relabel"));
    if (playing) this.follow();
  }

  // timeupdate comes four times a second, which is too seldom for syllables
  follow() {
    this.moved();
    if (!this.audio.paused) requestAnimationFrame(() => this.follow());
  }

  moved() {
    const now = this.audio.currentTime;
    this.time.textContent = clockText(now);
    this.canvas.setAttribute("aria-valuenow", now.toFixed(1));
    this.canvas.setAttribute("aria-valuetext", `${clockText(now)} / ${clockText(this.durationS)}`);
    this.draw();
    this.onTime(now);
  }

  draw() {
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    if (canvas.width !== Math.round(width * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      this.peaks = null;
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.peaks ??= this.samples ? peaksOf(this.samples, Math.floor(width / 3)) : null;
    const style = getComputedStyle(canvas);
    const place = this.durationS ? (this.audio.currentTime / this.durationS) * width : 0;
    const bars = this.peaks ?? new Float32Array(Math.floor(width / 3));
    bars.forEach((peak, index) => {
      const [x, tall] = [3 * index, Math.max(2, peak * (height - 4))];
      context.fillStyle = style.getPropertyValue(x < place ? "--accent" : "--wave");
      context.beginPath();
      context.roundRect(x, (height - tall) / 2, 2, tall, 1);
      context.fill();
    });
    context.fillStyle = style.getPropertyValue("--ink");
    context.fillRect(Math.min(place, width - 1.5), 0, 1.5, height);
  }
}

// The loudest sample of each of `count` stretches, from 0 to 1 of the whole recording's loudest.
function peaksOf(samples, count) {
  const peaks = new Float32Array(count);
  for (let index = 0; index < samples.length; index += 1) {
    const place = Math.floor((index / samples.length) * count);
    peaks[place] = Math.max(peaks[place], Math.abs(samples[index]));
  }
  const loudest = Math.max(...peaks, 1e-4);
  return peaks.map((peak) => peak / loudest);
}
