// Elements without markup in strings: what a node says is only ever text.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function setText(id, text) {
  const found = byId(id);
  if (found.textContent !== text) found.textContent = text;
}

export const grouped = (number) => Math.round(number).toLocaleString("en-US");

export const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

export function short(number) {
  if (number < 1000) return String(number);
  if (number < 1e6) return `${(number / 1e3).toFixed(number < 1e4 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(1)}M`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
