/* plan.js: the plan as records, and words for what is in it.
 *
 * The page that `dctms plan --html` writes has the plan as JSON, and three scripts that share their names: this one, picture.js,
 * which draws a phase, and page.js, which is everything around the picture. Names of values come from files: they are set as
 * text, never as markup.
 */
"use strict";

const byId = (id) => document.getElementById(id);

/* ---- the plan as records ---- */

const plan = JSON.parse(byId("plan").textContent);
const members = [...plan.smaller, plan]; /* of its family; most plans are their only one */

function records(columns, rows) {
  return rows.map((row, id) => {
    const record = {id};
    columns.forEach((name, i) => { record[name] = row[i]; });
    return record;
  });
}

/* The value whose bytes v takes in the end. */
function rootOf(phase, v) {
  while (v.alias_of >= 0) v = phase.values[v.alias_of];
  return v;
}

function linkValues(phase) {
  for (const v of phase.values) {
    v.root = rootOf(phase, v);
    v.inArena = plan.regions[v.region].name === "intermediate";
    v.isBuffer = v.inArena && v.root === v && v.first >= 0;
    v.makers = [];
    v.readers = [];
    v.members = [];
    v.root.members.push(v);
  }
  for (const op of phase.ops) {
    for (const id of op.in) if (id >= 0) phase.values[id].readers.push(op);
    for (const id of op.out) if (id >= 0) phase.values[id].makers.push(op);
    if (op.scratch >= 0) phase.values[op.scratch].makers.push(op);
  }
  for (const id of phase.certificate.values) phase.values[id].root.isWitness = true;
}

/* When each step begins and ends if every step takes what the cost model says. */
function timeSteps(phase) {
  const free = new Array(plan.bounds.threads).fill(0);
  phase.span = 1;
  for (const step of phase.steps) {
    const workers = free.slice(step.worker_first, step.worker_first + step.n_workers);
    step.awaitedBy = [];
    step.begin = Math.max(0, ...workers, ...step.waits.map((w) => phase.steps[w].end));
    step.end = step.begin + Math.max(1, step.est_ns);
    free.fill(step.end, step.worker_first, step.worker_first + step.n_workers);
    for (const w of step.waits) phase.steps[w].awaitedBy.push(step);
    for (const op of step.ops) phase.ops[op].step = step;
    phase.span = Math.max(phase.span, step.end);
    step.name = step.ops.map((op) => phase.ops[op].kind).join(" + ");
  }
}

for (const phase of members.flatMap((m) => m.phases)) {
  phase.values = records(phase.value_columns, phase.values);
  phase.ops = records(phase.op_columns, phase.ops);
  phase.steps = records(phase.step_columns, phase.steps);
  linkValues(phase);
  timeSteps(phase);
}

/* Buffers that take some of the same bytes, at other times. */
function sharers(phase, v) {
  const a = v.root;
  return phase.values.filter((b) => b.isBuffer && b !== a && b.offset < a.offset + a.bytes && a.offset < b.offset + b.bytes)
    .sort((b, c) => b.first - c.first || b.id - c.id);
}

const liveAt = (phase, op) =>
  phase.values.reduce((sum, v) => (v.isBuffer && v.first <= op && op <= v.last ? sum + v.bytes : sum), 0);

/* ---- words and numbers ---- */

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
const mib = (bytes) => (bytes / 1048576).toFixed(2) + " MiB";
const sized = (bytes) => grouped(bytes) + " bytes (" + mib(bytes) + ")";
const time = (ns) => (ns >= 1e6 ? (ns / 1e6).toFixed(2) + " ms" : (ns / 1e3).toFixed(1) + " \u00b5s");
const shape = (v) => grouped(v.rows) + " \u00d7 " + grouped(v.cols) + " " + v.format;
const count = (n, word) => grouped(n) + " " + word + (n === 1 ? "" : "s");
const fromTo = (what, a, b) => (a === b ? what + " " + a : what + "s " + a + " to " + b);

function life(phase, v) {
  if (v.first < 0) return "never touched";
  const first = phase.ops[v.first].step.id, last = phase.ops[v.last].step.id;
  return fromTo("step", first, last);
}

/* The least distance of 1, 2 or 5 times a power of ten that puts at most `most` ticks into a range. */
function tickDistance(range, most) {
  const power = 10 ** Math.floor(Math.log10(range / most));
  return [1, 2, 5, 10].map((f) => f * power).find((d) => range / d <= most) || 10 * power;
}

function element(name, text, attributes) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  return e;
}

/* ---- state ---- */

const VIEWS = {arena: "Arena over steps", lanes: "Workers over time"};
const state = {member: members.length - 1, phase: 0, view: "arena", chosen: null, find: "", certificate: true, theme: "light"};
const memberNow = () => members[state.member];
const phaseNow = () => memberNow().phases[state.phase];

/* What can be chosen has a key: v12 is a value, s3 a step. */
function thing(key) {
  const list = key && (key[0] === "v" ? phaseNow().values : phaseNow().steps);
  return list ? list[Number(key.slice(1))] : undefined;
}
