/* check-page.js: uses the page of `plan --html` as a person would; check-page.sh puts it behind the page's own scripts. What does
 * not hold is thrown, which the browser reports.
 */
"use strict";

function expect(holds, what) {
  if (!holds) throw new Error("check-page: " + what);
}

function press(key, where = canvas, shiftKey = false) {
  where.focus();
  where.dispatchEvent(new KeyboardEvent("keydown", {key, shiftKey, bubbles: true, cancelable: true}));
}

function type(text) {
  byId("search").value = text;
  byId("search").dispatchEvent(new Event("input"));
}

/* Everything that can be chosen, in every phase and view. */
function chooseAll() {
  for (let i = 0; i < memberNow().phases.length; i++) {
    setPhase(i);
    for (const name of Object.keys(VIEWS)) {
      setView(name);
      for (const li of [...byId("list").children]) {
        choose(li.id);
        draw();
        expect(byId("about").querySelector("h3"), "nothing is said about " + li.id);
      }
    }
  }
}

/* What the page adds up is what the plan says. */
function addUp() {
  let total = 0;
  for (const region of plan.regions) {
    expect(region.items.reduce((sum, item) => sum + item[1], 0) === region.bytes, "the items of " + region.name);
    total += region.bytes;
  }
  expect(total === plan.m_max_bytes, "the regions");
  for (const phase of members.flatMap((m) => m.phases)) {
    const cert = phase.certificate, live = phase.ops.map((op) => liveAt(phase, op.id));
    expect(Math.max(...live) === cert.load && live[cert.op] === cert.load, "the load of " + phase.name);
    for (const v of phase.values.filter((b) => b.isBuffer)) {
      for (const other of sharers(phase, v)) {
        expect(other.last < v.first || v.last < other.first, v.name + " and " + other.name + " share bytes and time");
      }
    }
  }
}

/* Every member of a family; the last is the one that the page begins with. */
function chooseEverywhere() {
  for (let i = 0; i < members.length; i++) {
    press("m");
    expect(state.member === i, "m");
    expect(byId("bounds").textContent.includes("context " + grouped(members[i].bounds.ctx)), "the header of a context");
    expect(byId("member-rows").children.length === 2 * members.length, "the rows of contexts");
    chooseAll();
  }
}

function walkByKeys() {
  setPhase(0);
  setView("arena");
  press("Escape");
  expect(state.chosen === null, "Escape");
  press("ArrowRight");
  const first = state.chosen;
  press("ArrowRight");
  expect(first && state.chosen !== first, "ArrowRight");
  press("ArrowLeft");
  expect(state.chosen === first, "ArrowLeft");
  press("+");
  expect(view.w < scene.width, "+");
  press("]");
  expect(view.h < scene.height, "]");
  const x = view.x;
  press("ArrowRight", canvas, true);
  expect(view.x > x, "Shift and ArrowRight");
  press("0");
  expect(seesAll(), "0");
  press("v");
  expect(state.view === "lanes", "v");
  press("p");
  expect(plan.phases.length < 2 || state.phase === 1, "p");
  press("c");
  expect(!state.certificate, "c");
  press("c");
  press("/");
  expect(document.activeElement === byId("search"), "/");
}

function searchAndPoint() {
  setPhase(0);
  setView("arena");
  const all = byId("list").children.length, name = phaseNow().values.find((v) => v.isBuffer).name;
  type(name);
  expect(byId("list").children.length < all && matching.size > 0, "the search for " + name);
  press("Enter", byId("search"));
  expect(thing(state.chosen), "Enter in the search");
  type("");
  expect(byId("list").children.length === all, "the empty search");
  byId("list").focus();
  press("End", byId("list"));
  expect(state.chosen === byId("list").lastElementChild.id, "End in the list");
  const box = scene.boxes[0], frame = canvas.getBoundingClientRect();
  const at = {clientX: frame.left + toX(box.x + box.w / 2), clientY: frame.top + toY(box.y + box.h / 2), bubbles: true};
  canvas.dispatchEvent(new PointerEvent("pointermove", at));
  expect(!byId("tip").hidden && byId("tip").textContent.startsWith(box.label), "what hovering tells");
  byId("theme").click();
  expect(document.documentElement.dataset.theme === state.theme, "the switch of themes");
}

addUp();
chooseEverywhere();
walkByKeys();
searchAndPoint();
document.documentElement.dataset.checked = "all";
