// Shows the values under the pointer in every plot of a page, and zooms into the time that is dragged over.

// A step of the keyboard, as a part of the width.
const STEP = 1 / 60;
// A shorter drag is a click.
const DRAG_MIN = 8;

const tip = element("div", "tip", "");
tip.hidden = true;
const crosses = element("div", "", "");
const chosen = element("div", "chosen", "");
chosen.hidden = true;
document.body.append(crosses, chosen, tip);

// The plot and the part of its width that are pointed at, and where a drag began.
let pointed;
let drag;

function frameOf(svg) {
  const [left, right, top, bottom] = svg.dataset.frame.split(" ").map(Number);
  const box = svg.getBoundingClientRect();
  const scale = box.width / svg.viewBox.baseVal.width;
  const at = (x) => box.left + x * scale;
  return { left: at(left), right: at(right), top: box.top + top * scale, bottom: box.top + bottom * scale };
}

function partAt(svg, x) {
  const { left, right } = frameOf(svg);
  return Math.min(1, Math.max(0, (x - left) / (right - left)));
}

function timeAt(svg, part) {
  const [from, until] = [Number(svg.dataset.from), Number(svg.dataset.until)];
  return from + part * (until - from);
}

// Two digits, or all before the point: more are not known.
function written(text, unit) {
  const value = Number(text);
  if (!Number.isFinite(value)) return "\u2013";
  if (unit !== "s") return (value >= 10 ? value.toFixed(0) : String(Number(value.toPrecision(2)))) + unit;
  const [factor, name] = value >= 0.995 ? [1, "s"] : value >= 1e-4 ? [1e3, "ms"] : [1e6, "\u00b5s"];
  return `${Number((value * factor).toPrecision(2))} ${name}`;
}

function place(what, left, top, width, height) {
  Object.assign(what.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}

function point() {
  const svg = pointed && document.contains(pointed.svg) ? pointed.svg : undefined;
  tip.hidden = !svg;
  crosses.replaceChildren();
  if (!svg) return;
  const time = timeAt(svg, pointed.part);
  tip.replaceChildren(element("div", "time", `${new Date(time * 1000).toISOString().slice(11, 19)} UTC`));
  svg.querySelectorAll("[data-values]").forEach((line, at) => {
    const values = line.dataset.values.split(" ");
    const value = values[Math.round(pointed.part * (values.length - 1))];
    const row = element("div", "", "");
    row.append(element("i", `s${at}`, ""), `${line.dataset.label} `, element("b", "", written(value, svg.dataset.unit)));
    tip.append(row);
  });
  // The same moment in every plot.
  for (const other of document.querySelectorAll("svg[data-frame]")) {
    const { left, right, top, bottom } = frameOf(other);
    const [from, until] = [timeAt(other, 0), timeAt(other, 1)];
    if (time < from || time > until) continue;
    const cross = element("div", "cross", "");
    place(cross, left + ((time - from) / (until - from || 1)) * (right - left), top, 1, bottom - top);
    crosses.append(cross);
  }
  const { left, right, top } = frameOf(svg);
  const x = left + pointed.part * (right - left);
  const isRight = x + tip.offsetWidth + 20 > document.documentElement.clientWidth;
  Object.assign(tip.style, { left: `${isRight ? x - tip.offsetWidth - 12 : x + 12}px`, top: `${top}px` });
}

function zoom(svg, a, b) {
  const [from, until] = [timeAt(svg, Math.min(a, b)), timeAt(svg, Math.max(a, b))];
  const query = new URLSearchParams(location.search);
  query.delete("range");
  query.set("from", Math.floor(from));
  query.set("until", Math.max(Math.ceil(until), Math.floor(from) + 2));
  location.search = query;
}

function choose(x) {
  chosen.hidden = !drag || Math.abs(x - drag.x) < DRAG_MIN;
  if (chosen.hidden) return;
  const { left, right, top, bottom } = frameOf(drag.svg);
  const [a, b] = [drag.part, partAt(drag.svg, x)].map((part) => left + part * (right - left));
  place(chosen, Math.min(a, b), top, Math.abs(b - a), bottom - top);
}

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.("svg[data-frame]");
  pointed = svg ? { svg, part: partAt(svg, event.clientX) } : undefined;
  point();
  choose(event.clientX);
});
document.addEventListener("pointerdown", (event) => {
  const svg = event.target.closest?.("svg[data-frame]");
  // A finger that moves scrolls the page.
  if (!svg || event.pointerType === "touch" || event.button !== 0) return;
  drag = { svg, x: event.clientX, part: partAt(svg, event.clientX) };
});
document.addEventListener("pointerup", (event) => {
  const { svg, x, part } = drag || {};
  drag = undefined;
  chosen.hidden = true;
  if (svg && Math.abs(event.clientX - x) >= DRAG_MIN) zoom(svg, part, partAt(svg, event.clientX));
});
document.addEventListener("keydown", (event) => {
  const svg = document.activeElement?.closest("svg[data-frame]");
  const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
  if (event.key === "Escape") pointed = drag = undefined;
  if (svg && by) {
    const part = pointed?.svg === svg ? pointed.part + by : 1;
    pointed = { svg, part: Math.min(1, Math.max(0, part)) };
    event.preventDefault();
  }
  point();
});
for (const name of ["scroll", "resize"]) addEventListener(name, () => pointed && point(), { passive: true });
