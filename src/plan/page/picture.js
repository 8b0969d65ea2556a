/* picture.js: a phase as boxes in a plane, and the part of it that is seen in the canvas.
 *
 *   scene   the arena (bytes over ops) or the lanes (workers over estimated time): boxes, links between them, the size of it all
 *   view    the part of the scene that is seen; zooming and moving change it
 *   draw    paints the scene through the view; whoever changes something asks for it by redraw(), and
 *           has the address written by that
 */
"use strict";

const canvas = byId("canvas");
const pen = canvas.getContext("2d");
const PAD = {left: 78, right: 16, top: 22, bottom: 40};

/* ---- scenes ---- */

let scene, view, matching; /* matching: keys that the search finds, or null */

function arenaScene(phase) {
  const boxes = phase.values.filter((v) => v.isBuffer).map((v) => ({
    key: "v" + v.id, x: v.first, w: v.last - v.first + 1, y: v.offset - phase.begin, h: v.bytes,
    paint: "--paint-" + v.paint, label: v.name, witness: v.isWitness,
  }));
  const top = phase.certificate.height;
  return {boxes, links: [], width: Math.max(1, phase.ops.length), height: Math.max(1, top * 1.05), least: 2, isArena: true};
}

/* Steps are coloured by the op that is cut over the workers: products, attention, the rest. */
const STEP_PAINTS = [[0, "product"], [3, "attention"], [4, "row by row"]];

function stepPaint(phase, s) {
  const kind = phase.ops[s.ops[0]].kind;
  return kind.startsWith("linear") || kind === "experts" ? 0 : kind.startsWith("attn") ? 3 : 4;
}

function lanesScene(phase) {
  const workers = plan.bounds.threads;
  const boxes = phase.steps.map((s) => ({
    key: "s" + s.id, x: s.begin, w: s.end - s.begin, y: workers - s.worker_first - s.n_workers, h: s.n_workers,
    paint: "--paint-" + stepPaint(phase, s), label: s.id + " " + s.name, witness: s.id === phase.certificate.step,
  }));
  const middle = (s) => workers - s.worker_first - s.n_workers / 2;
  const links = phase.steps.flatMap((s) => s.waits.map((w) => {
    const from = phase.steps[w];
    return {x0: from.end, y0: middle(from), x1: s.begin, y1: middle(s), step: s};
  }));
  return {boxes, links, width: phase.span, height: workers, least: phase.span / 1e5, isArena: false};
}

function setScene() {
  scene = state.view === "arena" ? arenaScene(phaseNow()) : lanesScene(phaseNow());
  scene.boxes.sort((a, b) => a.x - b.x || a.y - b.y);
  showAll();
}

function showAll() { view = {x: 0, w: scene.width, y: 0, h: scene.height}; }

const seesAll = () => view.w === scene.width && view.h === scene.height;

/* The box that stands for what is chosen: a value carried in place lies in the box of the one that it began as. */
function boxOf(key) {
  const v = thing(key);
  if (!v) return undefined;
  const own = key[0] === "v" ? "v" + v.root.id : key;
  return scene.boxes.find((b) => b.key === own);
}

/* ---- the part of the plane that is seen ---- */

const plotWidth = () => Math.max(1, canvas.clientWidth - PAD.left - PAD.right);
const plotHeight = () => Math.max(1, canvas.clientHeight - PAD.top - PAD.bottom);
const toX = (x) => PAD.left + ((x - view.x) / view.w) * plotWidth();
const toY = (y) => PAD.top + plotHeight() - ((y - view.y) / view.h) * plotHeight();
const fromX = (px) => view.x + ((px - PAD.left) / plotWidth()) * view.w;
const fromY = (px) => view.y + ((PAD.top + plotHeight() - px) / plotHeight()) * view.h;
const clamp = (n, low, high) => Math.min(Math.max(n, low), Math.max(low, high));

function keepInside() {
  view.w = clamp(view.w, scene.least, scene.width);
  view.h = clamp(view.h, scene.height / 1e5, scene.height);
  view.x = clamp(view.x, 0, scene.width - view.w);
  view.y = clamp(view.y, 0, scene.height - view.h);
}

/* Zooms about a point of the plane. */
function zoom(factor, x, y, upright) {
  const before = {...view};
  if (upright) view.h = clamp(view.h * factor, scene.height / 1e5, scene.height);
  else view.w = clamp(view.w * factor, scene.least, scene.width);
  view.x = x - (x - before.x) * (view.w / before.w);
  view.y = y - (y - before.y) * (view.h / before.h);
  keepInside();
  redraw();
}

const zoomMiddle = (factor, upright) => {
  const box = boxOf(state.chosen);
  const x = box ? box.x + box.w / 2 : view.x + view.w / 2, y = box ? box.y + box.h / 2 : view.y + view.h / 2;
  zoom(factor, clamp(x, view.x, view.x + view.w), clamp(y, view.y, view.y + view.h), upright);
};

function move(dx, dy) {
  view.x += dx * view.w;
  view.y += dy * view.h;
  keepInside();
  redraw();
}

function bringIntoView(box) {
  if (box.x + box.w < view.x || box.x > view.x + view.w) view.x = box.x + box.w / 2 - view.w / 2;
  if (box.y + box.h < view.y || box.y > view.y + view.h) view.y = box.y + box.h / 2 - view.h / 2;
  keepInside();
}

/* ---- drawing ---- */

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
let colors = {};
let asked = false;

function redraw() {
  writeAddress();
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function line(x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

function write(text, x, y, align, fill) {
  pen.textAlign = align;
  pen.fillStyle = fill;
  pen.fillText(text, x, y);
}

function drawByteTicks() {
  const unit = scene.height >= 4 * 1048576 ? 1048576 : 1024;
  const distance = tickDistance(view.h / unit, 8);
  for (let i = Math.ceil(view.y / unit / distance); i * distance * unit <= view.y + view.h; i++) {
    const y = toY(i * distance * unit);
    pen.strokeStyle = colors.line;
    line(PAD.left, y, PAD.left + plotWidth(), y);
    write(String(Number((i * distance).toPrecision(10))), PAD.left - 8, y + 4, "right", colors.quiet);
  }
  pen.save();
  pen.translate(16, PAD.top + plotHeight() / 2);
  pen.rotate(-Math.PI / 2);
  write("arena offset" + (phaseNow().begin ? " in the phase's part" : "") + ", " + (unit === 1024 ? "KiB" : "MiB"), 0, 0, "center", colors.quiet);
  pen.restore();
}

function drawWorkerTicks() {
  const workers = plan.bounds.threads, every = Math.ceil((workers * 16) / (plotHeight() * (scene.height / view.h)));
  for (let w = 0; w < workers; w++) {
    const y = toY(workers - w);
    pen.strokeStyle = colors.line;
    line(PAD.left, y, PAD.left + plotWidth(), y);
    const middle = toY(workers - w - 0.5) + 4;
    if (w % every === 0 && middle > PAD.top && middle < PAD.top + plotHeight()) {
      write("worker " + w, PAD.left - 8, middle, "right", colors.quiet);
    }
  }
}

function drawStepTicks() {
  const steps = phaseNow().steps, base = PAD.top + plotHeight();
  const every = Math.max(1, Math.round(tickDistance((steps.length * view.w) / scene.width, Math.max(1, plotWidth() / 60))));
  for (const step of steps) {
    const x = toX(step.ops[0]);
    if (x < PAD.left - 0.5 || x > PAD.left + plotWidth() + 0.5) continue;
    const numbered = step.id % every === 0;
    pen.strokeStyle = colors.quiet;
    line(x, base, x, base + (numbered ? 7 : 3));
    if (numbered) write(String(step.id), x, base + 19, "center", colors.quiet);
  }
  write("step", PAD.left + plotWidth() / 2, base + 34, "center", colors.quiet);
}

function drawTimeTicks() {
  const unit = view.w >= 1e6 ? 1e6 : 1e3, base = PAD.top + plotHeight();
  const distance = tickDistance(view.w / unit, Math.max(1, plotWidth() / 90));
  for (let i = Math.ceil(view.x / unit / distance); i * distance * unit <= view.x + view.w; i++) {
    const x = toX(i * distance * unit);
    pen.strokeStyle = colors.quiet;
    line(x, base, x, base + 7);
    write(grouped(Number((i * distance).toPrecision(10))), x, base + 19, "center", colors.quiet);
  }
  write("estimated time, " + (unit === 1e6 ? "ms" : "\u00b5s"), PAD.left + plotWidth() / 2, base + 34, "center", colors.quiet);
}

function drawLabel(box, x, y, w, h) {
  const left = Math.max(x, PAD.left), right = Math.min(x + w, PAD.left + plotWidth());
  if (right - left < 46 || h < 14) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, y, right - left - 3, h);
  pen.clip();
  write(box.label, left + 4, y + Math.min(h / 2 + 4, 16), "left", colors.onPaint);
  pen.restore();
}

function drawBox(box, alpha) {
  if (box.x + box.w < view.x || box.x > view.x + view.w || box.y + box.h < view.y || box.y > view.y + view.h) return;
  const x = toX(box.x), y = toY(box.y + box.h), w = toX(box.x + box.w) - x, h = toY(box.y) - y;
  pen.globalAlpha = alpha;
  pen.fillStyle = colors[box.paint];
  pen.fillRect(x, y, Math.max(w, 1), Math.max(h, 1));
  if (w > 3 && h > 3) {
    pen.strokeStyle = colors.back;
    pen.lineWidth = 1;
    pen.strokeRect(x, y, w, h);
  }
  drawLabel(box, x, y, w, h);
  pen.globalAlpha = 1;
}

function outline(box, stroke, width) {
  const x = toX(box.x), y = toY(box.y + box.h);
  pen.strokeStyle = stroke;
  pen.lineWidth = width;
  pen.strokeRect(x + width / 2, y + width / 2, Math.max(toX(box.x + box.w) - x - width, 1),
                 Math.max(toY(box.y) - y - width, 1));
  pen.lineWidth = 1;
}

/* A wait: from the end of the step that is awaited to the begin of the one that waits. */
function drawLinks() {
  const chosen = state.chosen && state.chosen[0] === "s" ? thing(state.chosen) : null;
  const crowded = (scene.links.length * view.w) / scene.width > plotWidth() / 6;
  for (const link of scene.links) {
    const x0 = toX(link.x0), x1 = toX(link.x1), y0 = toY(link.y0), y1 = toY(link.y1);
    const isChosen = link.step === chosen;
    if (crowded && !isChosen) continue;
    pen.strokeStyle = pen.fillStyle = isChosen ? colors.focus : colors.text;
    line(x0, y0, x1, y1);
    pen.beginPath();
    pen.arc(x1, y1, 3, 0, 2 * Math.PI);
    pen.fill();
  }
}

function drawCertificate() {
  const cert = phaseNow().certificate;
  for (const box of scene.boxes) if (box.witness) outline(box, colors.mark, 2);
  if (!scene.isArena) return;
  pen.strokeStyle = colors.mark;
  pen.setLineDash([7, 4]);
  const x = toX(cert.op + 0.5), y = toY(cert.load);
  line(x, PAD.top, x, PAD.top + plotHeight());
  line(PAD.left, y, PAD.left + plotWidth(), y);
  pen.setLineDash([]);
  write("load " + mib(cert.load) + ", step " + cert.step, PAD.left + plotWidth() - 4, y - 5, "right", colors.mark);
}

/* What is chosen and has no box of its own here: in the arena the columns of its ops, among the lanes the steps that touch it. */
function drawChosen() {
  const own = boxOf(state.chosen), item = thing(state.chosen);
  if (own) outline(own, colors.focus, 3);
  if (!item || own) return;
  const ops = state.chosen[0] === "s" ? item.ops.map((id) => phaseNow().ops[id]) : [...item.makers, ...item.readers];
  for (const op of ops) {
    const column = {x: op.id, w: 1, y: 0, h: scene.height};
    outline(scene.isArena ? column : boxOf("s" + op.step.id), colors.focus, 2);
  }
}

function draw() {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  for (const name of ["back", "line", "text", "quiet", "mark", "focus"]) colors[name] = color("--" + name);
  colors.onPaint = color("--on-paint");
  for (const box of scene.boxes) if (!(box.paint in colors)) colors[box.paint] = color(box.paint);
  if (scene.isArena) { drawByteTicks(); drawStepTicks(); } else { drawWorkerTicks(); drawTimeTicks(); }
  pen.save();
  pen.beginPath();
  pen.rect(PAD.left, 0, plotWidth(), PAD.top + plotHeight());
  pen.clip();
  const isDim = (box) => matching && !matching.has(box.key);
  for (const box of scene.boxes) if (isDim(box)) drawBox(box, 0.2);
  for (const box of scene.boxes) if (!isDim(box)) drawBox(box, 1); /* what the search found lies above the rest */
  if (state.certificate) drawCertificate();
  drawLinks();
  drawChosen();
  pen.restore();
}
