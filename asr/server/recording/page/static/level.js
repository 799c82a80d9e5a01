// Draws how loud the last seconds were, bar by bar.

const QUIETEST_DB = -54; // has no bar
const CLIPPED = 0.985; // of full scale
const BAR_PX = 5;
const BAR_S = 0.05;

export class LevelMeter {
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.ask()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.ask());
  }

  clear() {
    this.bars = []; // { peak, isTake }
    this.loudest = 0; // of the bar that is being filled
    this.filledS = 0;
    this.ask();
  }

  add(samples, rateHz, isTake) {
    for (const sample of samples) this.loudest = Math.max(this.loudest, Math.abs(sample));
    this.filledS += samples.length / rateHz;
    if (this.filledS < BAR_S) return;
    this.bars.push({ peak: this.loudest, isTake });
    this.bars = this.bars.slice(-1000);
    [this.loudest, this.filledS] = [0, 0];
    this.ask();
  }

  // Draw at most once in each picture of the screen.
  ask() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.draw();
    });
  }

  draw() {
    const { canvas } = this;
    const [width, height, scale] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
    if (!width) return;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const colour = ({ peak, isTake }) =>
      style.getPropertyValue(peak >= CLIPPED ? "--problem" : isTake ? "--record" : "--wave");
    const share = (peak) => Math.max(0, 1 - (20 * Math.log10(peak + 1e-6)) / QUIETEST_DB);
    const bar = (x, y, w, h, fill) => {
      context.fillStyle = fill;
      context.beginPath();
      context.fillRect(x, y, w, h);
    };
    if (this.isStill.matches) {
      const last = this.bars.at(-1) ?? { peak: 0, isTake: false };
      bar(0, height / 2 - 4, width * share(last.peak), 8, colour(last));
      return;
    }
    const count = Math.floor(width / BAR_PX);
    const shown = this.bars.slice(-count);
    shown.forEach((one, index) => {
      const tall = Math.max(2, share(one.peak) * height);
      bar(width - BAR_PX * (shown.length - index), (height - tall) / 2, BAR_PX - 2, tall, colour(one));
    });
  }
}
