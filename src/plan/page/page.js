/* page.js: what is around the picture: tabs, search and list, facts about what is chosen, keys and pointers.
 *
 * What is shown also stands in the address behind #, so that a view can be kept and sent.
 */
"use strict";

/* ---- the address ---- */

function readAddress() {
  const from = new URLSearchParams(location.hash.slice(1));
  const member = members.findIndex((m) => String(m.bounds.ctx) === from.get("context"));
  if (member >= 0) state.member = member;
  const phase = memberNow().phases.findIndex((p) => p.name === from.get("phase"));
  if (phase >= 0) state.phase = phase;
  if (from.get("view") in VIEWS) state.view = from.get("view");
  if (thing(from.get("chosen"))) state.chosen = from.get("chosen");
  state.find = from.get("find") || "";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const fixed = from.get("theme");
  setTheme(fixed === "dark" || (fixed !== "light" && dark.matches) ? "dark" : "light");
  if (fixed === null) dark.addEventListener("change", (e) => { setTheme(e.matches ? "dark" : "light"); redraw(); });
}

/* A while after the last change: browsers refuse addresses that change too often. */
let writing = 0;
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const to = new URLSearchParams({phase: phaseNow().name, view: state.view, theme: state.theme});
    if (members.length > 1) to.set("context", memberNow().bounds.ctx);
    if (state.chosen) to.set("chosen", state.chosen);
    if (state.find) to.set("find", state.find);
    if (!seesAll()) to.set("see", [view.x, view.w, view.y, view.h].map((n) => Number(n.toPrecision(6))).join(" "));
    location.replace("#" + to);
  }, 300);
}

/* The part of the picture that the address asks for. */
function seeAddress() {
  const see = (new URLSearchParams(location.hash.slice(1)).get("see") || "").split(" ").map(Number);
  if (see.length !== 4 || see.some((n) => !(n >= 0))) return;
  view = {x: see[0], w: see[1], y: see[2], h: see[3]};
  keepInside();
}

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
}

/* ---- what is said about a value or a step ---- */

function chooser(key, text) {
  const b = element("button", text, {type: "button"});
  b.addEventListener("click", () => choose(key));
  return b;
}

const stepButton = (step) => chooser("s" + step.id, "step " + step.id + ": " + step.name);
const valueButton = (v) => chooser("v" + v.id, v.name);

/* One line of facts: a term, and a text or a few elements. */
function fact(dl, term, what) {
  const dd = element("dd");
  if (typeof what === "string") dd.textContent = what;
  else if (what.length === 0) return;
  else dd.append(...what);
  dl.append(element("dt", term), dd);
}

const unique = (list) => [...new Set(list)];

function aboutValue(dl, phase, v) {
  const region = plan.regions[v.region].name;
  fact(dl, "shape", shape(v));
  fact(dl, "bytes", sized(v.bytes));
  fact(dl, "place", region + ", " + grouped(v.offset) + " to " + grouped(v.offset + v.bytes));
  if (v.root !== v) fact(dl, "in the bytes of", [valueButton(v.root)]);
  fact(dl, v.inArena ? "bytes taken" : "used", life(phase, v));
  fact(dl, v.format === "bytes" ? "scratch of" : "made by", unique(v.makers.map((op) => op.step)).map(stepButton));
  fact(dl, "read by", unique(v.readers.map((op) => op.step)).map(stepButton));
  fact(dl, "in its bytes", v.members.filter((m) => m !== v).map(valueButton));
  if (v.root.isWitness) fact(dl, "certificate", "one of the " + phase.certificate.values.length + " that attain the load");
  if (!v.inArena) return;
  const others = sharers(phase, v);
  fact(dl, "shares bytes", others.length === 0 ? "with none" : "with " + count(others.length, "value") + ":");
  fact(dl, "", others.map(valueButton));
}

function aboutStep(dl, phase, step) {
  const last = step.worker_first + step.n_workers - 1;
  fact(dl, "runs on", fromTo("worker", step.worker_first, last));
  fact(dl, "estimated", time(step.est_ns) + ", from " + time(step.begin) + " on");
  fact(dl, "waits for", step.waits.map((w) => stepButton(phase.steps[w])));
  fact(dl, "awaited by", step.awaitedBy.map(stepButton));
  for (const id of step.ops) {
    const op = phase.ops[id], values = (ids) => unique(ids).filter((v) => v >= 0).map((v) => valueButton(phase.values[v]));
    fact(dl, "op " + id, op.kind + ", live there: " + sized(liveAt(phase, id)));
    fact(dl, "reads", values(op.in));
    fact(dl, "makes", values(op.out));
    fact(dl, "scratch", values([op.scratch]));
  }
  if (step.id === phase.certificate.step) fact(dl, "certificate", "the load is reached here");
}

function showAbout() {
  const phase = phaseNow(), item = thing(state.chosen), about = byId("about"), dl = element("dl");
  if (!item) {
    about.replaceChildren(element("p", "Choose a value or a step: in the picture, or in the list.", {class: "quiet"}));
    return;
  }
  if (state.chosen[0] === "v") aboutValue(dl, phase, item);
  else aboutStep(dl, phase, item);
  about.replaceChildren(element("h3", state.chosen[0] === "v" ? item.name : "step " + item.id + ": " + item.name), dl);
  about.scrollTop = 0;
}

function tipText(key) {
  const phase = phaseNow(), item = thing(key);
  if (key[0] === "s") {
    const waits = item.waits.length ? "waits for " + count(item.waits.length, "step") : "waits for none";
    return "step " + item.id + ": " + item.name + "\n" + time(item.est_ns) + ", " + waits;
  }
  return item.name + "\n" + shape(item) + ", " + sized(item.bytes) + "\n" + life(phase, item) +
         "\nshares bytes with " + count(sharers(phase, item).length, "value");
}

/* ---- choosing ---- */

function choose(key) {
  state.chosen = key;
  const box = boxOf(key);
  if (box) bringIntoView(box);
  showAbout();
  markInList();
  nameCanvas();
  redraw();
}

function nameCanvas() {
  const item = thing(state.chosen), what = state.view === "arena" ? "Arena of phase " : "Workers of phase ";
  canvas.setAttribute("aria-label", what + phaseNow().name + (item ? ", chosen: " + item.name : ""));
}

/* The next box in time, or among those that share a time with the chosen one the next above or below. */
function step(dx, dy) {
  const boxes = scene.boxes, at = boxes.indexOf(boxOf(state.chosen));
  if (at < 0) return boxes.length && choose(boxes[0].key);
  if (dx) return boxes[at + dx] && choose(boxes[at + dx].key);
  const own = boxes[at];
  const meets = boxes.filter((b) => b.x < own.x + own.w && own.x < b.x + b.w && (b.y - own.y) * dy > 0);
  meets.sort((a, b) => (a.y - b.y) * dy || a.x - b.x);
  if (meets.length) choose(meets[0].key);
}

function boxAt(event) {
  const frame = canvas.getBoundingClientRect();
  const x = fromX(event.clientX - frame.left), y = fromY(event.clientY - frame.top), near = (view.w / plotWidth()) * 2;
  const hit = scene.boxes.filter((b) => y >= b.y && y <= b.y + b.h && x >= b.x - near && x <= b.x + b.w + near);
  return hit.find((b) => x >= b.x && x <= b.x + b.w) || hit[0];
}

/* ---- search and list ---- */

function entries(phase) {
  const value = (v) => ({key: "v" + v.id, name: v.name, more: grouped(v.bytes), text: v.name + " " + v.format + " " +
                         plan.regions[v.region].name});
  const step = (s) => ({key: "s" + s.id, name: "step " + s.id + ": " + s.name, more: time(s.est_ns), text: "step " + s.id +
                        " " + s.name});
  return [...phase.values.filter((v) => v.inArena).map(value), ...phase.steps.map(step),
          ...phase.values.filter((v) => !v.inArena).map(value)];
}

function fillList() {
  const words = state.find.toLowerCase().split(/\s+/).filter((w) => w);
  const all = entries(phaseNow());
  const found = all.filter((e) => words.every((w) => e.text.toLowerCase().includes(w)));
  matching = words.length ? new Set(found.map((e) => e.key)) : null;
  byId("list").replaceChildren(...found.map((e) => {
    const li = element("li", undefined, {role: "option", id: e.key, "aria-selected": "false"});
    li.append(element("span", e.name), element("span", e.more));
    return li;
  }));
  byId("found").textContent = words.length ? grouped(found.length) + " of " + grouped(all.length) + " found"
                                           : count(all.length, "value") + " and steps";
  markInList();
}

function markInList() {
  const list = byId("list"), old = list.querySelector('[aria-selected="true"]');
  if (old) old.setAttribute("aria-selected", "false");
  const now = state.chosen && byId(state.chosen);
  list.removeAttribute("aria-activedescendant");
  if (!now) return;
  now.setAttribute("aria-selected", "true");
  list.setAttribute("aria-activedescendant", state.chosen);
  if (now.offsetTop < list.offsetTop + list.scrollTop ||
      now.offsetTop + now.offsetHeight > list.offsetTop + list.scrollTop + list.clientHeight) {
    list.scrollTop = now.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
}

function stepInList(key) {
  const options = [...byId("list").children];
  const at = options.findIndex((o) => o.id === state.chosen), last = options.length - 1;
  const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + 8, PageUp: at - 8}[key];
  if (to === undefined || last < 0) return false;
  choose(options[clamp(to, 0, last)].id);
  return true;
}

/* ---- the parts around the picture ---- */

function showHeader() {
  const m = memberNow(), b = m.bounds;
  byId("title").textContent = plan.name || plan.arch;
  const isGraph = plan.phases.length === 1 && plan.phases[0].name === "graph";
  const bounds = isGraph ? "runs of 1 to " + count(b.max_input, "row") + ", " + count(b.threads, "worker")
    : "context " + grouped(b.ctx) + " = " + grouped(b.max_input) + " in + " + grouped(b.max_output) + " out, ubatch " +
      b.ubatch + ", " + count(b.slots, "slot") + ", " + count(b.threads, "worker") + ", KV " + b.type_k + "/" + b.type_v +
      (b.overlap ? ", decode may overlap" : "");
  byId("bounds").textContent = plan.arch + ", " + grouped(plan.parameters) + " parameters; " + bounds + "; estimated " +
    (m.est_us_per_token / 1000).toFixed(2) + (isGraph ? " ms a run of all rows" : " ms a token") + ", roofline " +
    (m.roofline_us_per_token / 1000).toFixed(2) + " ms";
}

/* A part of a bar, as wide as it is large beside all the bar has. */
function barPart(name, bytes, all, paint) {
  const part = element("div", bytes > all / 12 ? name + " " + mib(bytes) : "", {title: name + ": " + sized(bytes)});
  if (part.textContent === "") part.className = "thin";
  part.style.flex = bytes + " 1 0";
  part.style.background = "var(--paint-" + paint + ")";
  return part;
}

function fillBar(bar, regions) {
  const all = regions.reduce((sum, r) => sum + r.bytes, 0);
  bar.append(...regions.map((r) => barPart(r.name, r.bytes, all, plan.regions.indexOf(r))));
}

/* What the members of a family have in turns, over the same bytes: caches, and intermediates behind them. */
function fillMembers() {
  const [kv, arena] = ["kv", "intermediate"].map((name) => plan.regions.findIndex((r) => r.name === name));
  const all = plan.regions[kv].bytes + plan.regions[arena].bytes;
  byId("members").hidden = members.length === 1;
  byId("member-rows").append(...members.flatMap((m) => {
    const bar = element("div", undefined, {class: "bar"}), rest = element("div", undefined, {class: "thin"});
    rest.style.flex = all - m.kv_bytes - m.height_bytes + " 1 0";
    bar.append(barPart("kv", m.kv_bytes, all, kv), barPart("intermediate", m.height_bytes, all, arena), rest);
    return [element("span", "context " + grouped(m.bounds.ctx) + ", ubatch " + grouped(m.bounds.ubatch)), bar];
  }));
}

function chip(paint, text) {
  const span = element("span"), box = element("i", "", {class: "chip"});
  box.style.background = "var(" + paint + ")";
  span.append(box, text);
  return span;
}

function fillEnvelope() {
  byId("envelope-title").textContent = "M_max " + sized(plan.m_max_bytes);
  const largest = plan.regions.reduce((a, b) => (b.bytes > a.bytes ? b : a));
  fillBar(byId("bar-all"), plan.regions);
  fillBar(byId("bar-rest"), plan.regions.filter((r) => r !== largest));
  byId("items-title").textContent = "Above: all of it. Below: without " + largest.name + ". Every item as a table";
  for (const region of plan.regions) {
    for (const [name, bytes, outside] of region.items) {
      const tr = element("tr"), td = element("td");
      td.append(chip("--paint-" + plan.regions.indexOf(region), region.name));
      tr.append(td, element("td", name + (outside ? " (outside the reservation)" : "")), element("td", grouped(bytes)),
                element("td", (bytes / 1048576).toFixed(2)));
      byId("item-rows").append(tr);
    }
  }
}

function fillTabs(list, names, onChoose) {
  for (const [key, text] of names) {
    const tab = element("button", text, {type: "button", role: "tab", "aria-controls": "panel", "data-tab": key});
    tab.addEventListener("click", () => onChoose(key));
    list.append(tab);
  }
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.children], at = tabs.indexOf(document.activeElement);
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1}[event.key];
    if (to === undefined) return;
    const tab = tabs[(to + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
    event.preventDefault();
    event.stopPropagation();
  });
}

function markTabs(list, key) {
  for (const tab of list.children) {
    const isShown = tab.dataset.tab === String(key);
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
  }
}

function showFacts() {
  const phase = phaseNow(), cert = phase.certificate, facts = byId("facts");
  const gap = cert.optimal ? "height = load: proven optimal" : "gap " + sized(cert.height - cert.load);
  facts.textContent = count(phase.rows, "row") + ", " + count(phase.values.filter((v) => v.inArena).length, "value") + " in " +
    count(phase.buffers, "buffer") + ", " + count(phase.steps.length, "step") + ", " + count(phase.waits, "wait") + "; load " +
    sized(cert.load) + ", " + gap + "; the load is reached at ";
  const at = phase.steps[cert.step];
  if (at) facts.append(chooser("s" + at.id, "step " + at.id));
  const m = memberNow();
  if (m.bounds.overlap) facts.append("; from " + sized(phase.begin) + " on in the arena; decode and another phase together: load " +
                                     sized(m.load_bytes) + ", height " + sized(m.height_bytes));
}

function showLegend() {
  const paints = plan.paints.map((name, i) => chip("--paint-" + i, name));
  const lanes = STEP_PAINTS.map(([i, name]) => chip("--paint-" + i, name));
  lanes.push(element("span", "\u25cf wait, where there is room to see it"));
  byId("legend").replaceChildren(...(state.view === "arena" ? paints : lanes));
}

function showPhase() {
  setScene();
  markTabs(byId("contexts"), state.member);
  markTabs(byId("phases"), state.phase);
  markTabs(byId("views"), state.view);
  showFacts();
  showLegend();
  fillList();
  choose(state.chosen);
}

function setMember(index) {
  if (state.member === Number(index)) return;
  state.member = Number(index);
  state.phase = Math.min(state.phase, memberNow().phases.length - 1);
  state.chosen = null; /* keys are those of a phase */
  showHeader();
  showPhase();
}

function setPhase(index) {
  if (state.phase === Number(index)) return;
  state.phase = Number(index);
  state.chosen = null;
  showPhase();
}

function setView(name) {
  state.view = name;
  showPhase();
}

/* ---- events ---- */

function onKey(key, shift) {
  const arrow = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[key];
  if (arrow && shift) move(arrow[0] / 8, arrow[1] / 8);
  else if (arrow) step(...arrow);
  else if (key === "+" || key === "=") zoomMiddle(0.7, false);
  else if (key === "-") zoomMiddle(1 / 0.7, false);
  else if (key === "]") zoomMiddle(0.7, true);
  else if (key === "[") zoomMiddle(1 / 0.7, true);
  else if (key === "0") { showAll(); redraw(); }
  else if (key === "/") byId("search").focus();
  else if (key === "m") setMember((state.member + 1) % members.length);
  else if (key === "p") setPhase((state.phase + 1) % memberNow().phases.length);
  else if (key === "v") setView(state.view === "arena" ? "lanes" : "arena");
  else if (key === "c") {
    state.certificate = !state.certificate;
    byId("certificate").setAttribute("aria-pressed", String(state.certificate));
    redraw();
  } else if (key === "Escape") choose(null);
  else return false;
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target === byId("search")) return;
  if (event.target === byId("list") && stepInList(event.key)) event.preventDefault();
  else if (event.key.startsWith("Arrow") && event.target !== canvas && event.target !== document.body) return;
  else if (onKey(event.key, event.shiftKey)) event.preventDefault();
});

byId("search").addEventListener("input", (event) => {
  state.find = event.target.value;
  fillList();
  redraw();
});
byId("search").addEventListener("keydown", (event) => {
  const first = byId("list").firstElementChild;
  if (event.key === "Enter" && first) choose(first.id);
  else if (event.key === "ArrowDown") byId("list").focus();
  else if (event.key === "Escape") canvas.focus();
  else return;
  event.preventDefault();
});
byId("list").addEventListener("click", (event) => {
  const li = event.target.closest("li");
  if (li) choose(li.id);
});

byId("tools").addEventListener("click", (event) => {
  const button = event.target.closest("[data-key]");
  if (button) onKey(button.dataset.key, false);
});
byId("theme").addEventListener("click", () => {
  setTheme(state.theme === "dark" ? "light" : "dark");
  colors = {};
  redraw();
});

canvas.addEventListener("wheel", (event) => {
  const frame = canvas.getBoundingClientRect();
  const turn = event.deltaY || event.deltaX; /* a wheel with Shift turns sideways in some browsers */
  zoom(turn > 0 ? 1.25 : 0.8, fromX(event.clientX - frame.left), fromY(event.clientY - frame.top), event.shiftKey);
  event.preventDefault();
}, {passive: false});

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = {x: event.clientX, y: event.clientY, from: {...view}, moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return showTip(event);
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
  view = {...drag.from, x: drag.from.x - (dx / plotWidth()) * view.w, y: drag.from.y + (dy / plotHeight()) * view.h};
  keepInside();
  redraw();
});
canvas.addEventListener("pointerup", (event) => {
  const box = boxAt(event);
  if (drag && !drag.moved) choose(box ? box.key : null);
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });

function showTip(event) {
  const box = boxAt(event), tip = byId("tip"), frame = canvas.getBoundingClientRect();
  tip.hidden = !box;
  if (!box) return;
  tip.textContent = tipText(box.key);
  const x = event.clientX - frame.left, y = event.clientY - frame.top;
  tip.style.left = clamp(x + 14, 0, frame.width - tip.offsetWidth) + "px";
  tip.style.top = clamp(y + 14, 0, frame.height - tip.offsetHeight) + "px";
}

new ResizeObserver(redraw).observe(canvas);

/* ---- begin ---- */

readAddress();
byId("search").value = state.find;
showHeader();
fillEnvelope();
fillMembers();
byId("contexts").hidden = members.length === 1;
fillTabs(byId("contexts"), members.map((m, i) => [String(i), "context " + grouped(m.bounds.ctx)]), setMember);
fillTabs(byId("phases"), plan.phases.map((p, i) => [String(i), p.name]), setPhase);
fillTabs(byId("views"), Object.entries(VIEWS), setView);
showPhase();
seeAddress();
draw();
document.documentElement.dataset.readyMs = Math.round(performance.now()); /* since the page was asked for: scripts/check-page.sh */
