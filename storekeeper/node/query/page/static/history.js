// What became of a key: a field of its values over time, as a line of steps, for each window or session of the key.

import { element, svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 120, LEFT = 8, TOP = 10;

export function historyPlot(changes) {
  const rows = new Map();
  for (const change of [...changes].reverse()) {
    const name = change.window ? JSON.stringify(change.window) : "";
    rows.set(name, [...(rows.get(name) ?? []), change]);
  }
  const fields = [...new Set(changes.flatMap(({ value }) => numbers(value)))];
  if (fields.length === 0) return element("p", { class: "quiet" }, "No field of this key is a number.");
  const choice = element("select", { "aria-label": "Field" }, ...fields.map((field) => element("option", {}, field || "value")));
  const plot = element("div", { class: "plot" });
  const draw = () => plot.replaceChildren(drawn([...rows.values()], fields[choice.selectedIndex]));
  choice.addEventListener("change", draw);
  draw();
  return element("div", {}, choice, plot);
}

// The names of an object's numbers; "" for a value that is a number itself.
function numbers(value) {
  if (typeof value === "number") return [""];
  return Object.entries(value ?? {}).filter(([, one]) => typeof one === "number").map(([name]) => name);
}

function drawn(rows, field) {
  const lines = rows.map((changes) => changes.map(({ at_ms, value }) => [at_ms, of(value, field)]));
  const known = lines.flat().filter(([, number]) => number !== null);
  const [from, to] = bounds(known.map(([at]) => at)), [low, high] = bounds(known.map(([, number]) => number));
  const x = (at) => LEFT + ((at - from) / (to - from || 1)) * (WIDTH - 2 * LEFT);
  const y = (number) => HEIGHT - TOP - ((number - low) / (high - low || 1)) * (HEIGHT - 2 * TOP);
  const label = `${field || "value"}: ${low} to ${high}, ${shown(from)} to ${shown(to)}`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const line of lines) picture.append(svg("path", { d: steps(line, x, y, to) }));
  for (const [at, number] of known) {
    const title = svg("title", {}, `${shown(at)}: ${number}`);
    picture.append(svg("circle", { cx: x(at), cy: y(number), r: 2.5 }, title));
  }
  return element("figure", {}, picture, element("figcaption", {}, label));
}

// A value holds until the next change; where the row was deleted, the line has a gap.
function steps(line, x, y, end) {
  let path = "", before = null;
  for (const [at, number] of [...line, [end, line.at(-1)[1]]]) {
    if (before !== null) path += `H${x(at)}`;
    if (number !== null) path += before === null ? `M${x(at)} ${y(number)}` : `V${y(number)}`;
    before = number;
  }
  return path;
}

const of = (value, field) => (field === "" ? value : (value?.[field] ?? null));
const bounds = (values) => [Math.min(...values), Math.max(...values)];
const shown = (at) => new Date(at).toISOString().replace(".000Z", "Z");
