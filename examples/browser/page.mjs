// Draws, predicts and trains; the numbers are computed by the module that xpr wrote.
import { load } from './digits.mjs';

const PIXELS = 64, BATCH = 64, CHUNK = 99, HELD_OUT = 5 * CHUNK, STEPS_PER_FRAME = 10;
const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
const element = (id) => document.getElementById(id);

const [model, pixels, labels] = await Promise.all([load(), bytes('images.bin'), bytes('labels.bin')]);
const images = Float32Array.from(pixels, (value) => value / 16);
const trained = labels.length - HELD_OUT;
let params = model.init({ seed: Uint32Array.of(0, 7) });
let steps = 0, training = true;

// ---- training

function step() {
  const x = new Float32Array(BATCH * PIXELS), y = new Int32Array(BATCH);
  for (let i = 0; i < BATCH; ++i) {
    const k = (steps * BATCH + i) % trained;
    x.set(images.subarray(k * PIXELS, (k + 1) * PIXELS), i * PIXELS);
    y[i] = labels[k];
  }
  const found = model.step({ params, images: x, labels: y });
  params = found.params;
  ++steps;
  return found.loss[0];
}

const largest = (scores) => scores.indexOf(Math.max(...scores));

function accuracy() {
  let right = 0;
  for (let first = trained; first < labels.length; first += CHUNK) {
    const part = images.subarray(first * PIXELS, (first + CHUNK) * PIXELS);
    const scores = model.predict_chunk({ params, images: part });
    for (let i = 0; i < CHUNK; ++i) {
      right += largest(scores.subarray(10 * i, 10 * i + 10)) === labels[first + i];
    }
  }
  return right / HELD_OUT;
}

function frame() {
  let loss = 0;
  for (let i = 0; i < STEPS_PER_FRAME; ++i) loss = step();
  const share = (100 * accuracy()).toFixed(1);
  element('loss').textContent =
    `step ${steps}: loss ${loss.toFixed(4)}, ${share} % of the images held out are recognised`;
  recognise();
  if (steps >= 2000) training = false;
  if (training) requestAnimationFrame(frame);
}

// ---- drawing

const canvas = element('drawing'), pen = canvas.getContext('2d', { willReadFrequently: true });
const table = element('scores');
const bars = Array.from({ length: 10 }, (_, digit) => {
  const row = table.insertRow();
  row.insertCell().textContent = digit;
  const bar = document.createElement('div');
  bar.className = 'bar';
  row.insertCell().append(bar);
  return bar;
});

function clear() {
  pen.fillStyle = '#000';
  pen.fillRect(0, 0, canvas.width, canvas.height);
  recognise();
}

/** The drawing as 8 x 8 means of brightness. */
function seen() {
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  const x = new Float32Array(PIXELS), size = canvas.width / 8;
  for (let i = 0; i < canvas.height; ++i) {
    for (let j = 0; j < canvas.width; ++j) {
      const place = 8 * Math.floor(i / size) + Math.floor(j / size);
      x[place] += data[4 * (i * canvas.width + j)] / 255 / (size * size);
    }
  }
  return x;
}

function recognise() {
  const scores = model.predict({ params, images: seen() });
  scores.forEach((score, digit) => { bars[digit].style.width = `${12 * score}rem`; });
}

canvas.addEventListener('pointermove', (event) => {
  if (!event.buttons) return;
  pen.fillStyle = '#fff';
  pen.beginPath();
  pen.arc(event.offsetX, event.offsetY, 15, 0, 2 * Math.PI);
  pen.fill();
  recognise();
});
element('clear').addEventListener('click', clear);
element('train').addEventListener('click', () => {
  training = !training;
  if (training) frame();
});
clear();
frame();
