// The box that asks: which queries a store answers, their paths, and what came back from where.

import { byId, element } from "./dom.js";
import { historyPlot } from "./history.js";
import { ask } from "./node.js";

const encoded = encodeURIComponent;
const UNITS_MS = { s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
const DOTS = new Set([".", ".."]);

const get = { name: "value of a key", fields: ["key"], path: (s, q) => keyed(`/state/keyvalue/${s}/{}`, q.key) };
const prefix = {
  name: "keys that begin with", fields: ["key", "limit"],
  path: (s, q) => (q.key ? keyed(`/state/keyvalues/${s}/prefix/{}`, q.key) : `/state/keyvalues/${s}/all?`) + `&limit=${q.limit}`,
};
const top = { name: "top", fields: ["limit"], path: (s, q) => `/state/ranked/${s}/top?limit=${q.limit}` };
const rank = { name: "rank of a key", fields: ["key"], path: (s, q) => keyed(`/state/ranked/${s}/rank/{}`, q.key) };
const windows = {
  name: "windows of a key, or of all", fields: ["key", "from", "to"],
  path: (s, q) => {
    const times = `${time(q.from)}/${time(q.to)}`;
    return q.key ? keyed(`/state/windowed/${s}/{}/${times}`, q.key, ["all"]) : `/state/windowed/${s}/all/${times}`;
  },
};
const sessions = {
  name: "sessions of a key", fields: ["key"],
  path: (s, q) => keyed(`/state/sessions/${s}/{}`, q.key, ["active", "ended"]),
};
// Of a time: a node does not know the gap of an app's sessions.
const active = {
  name: "sessions still active", fields: ["to", "gap", "limit"],
  path: (s, q) => `/state/sessions/${s}/active?at_ms=${time(q.to)}&gap_ms=${gap(q.gap)}&limit=${q.limit}`,
};
const ended = {
  name: "sessions that ended", fields: ["from", "to", "limit"],
  path: (s, q) => `/state/sessions/${s}/ended/${time(q.from)}/${time(q.to)}?limit=${q.limit}`,
};
const versions = {
  name: "versions of a key", fields: ["key", "from", "to", "limit"],
  path: (s, q) => keyed(`/state/versions/${s}/{}`, q.key) + `&from_ms=${time(q.from)}&to_ms=${time(q.to)}&limit=${q.limit}`,
};

const history = {
  name: "history of a key", fields: ["key", "from", "to", "limit"], plot: historyPlot,
  path: (s, q) => keyed(`/state/history/${s}/{}`, q.key) + `&from_ms=${time(q.from)}&to_ms=${time(q.to)}&limit=${q.limit}`,
};

const QUERIES = {
  keyvalue: [get, prefix, history], global: [get, prefix, history], ranked: [get, top, rank, prefix, history],
  window: [windows, history], session: [active, sessions, ended, history], versioned: [get, versions],
};

// A path with its key; as base64url where the text would be taken for a word of the path, or be resolved away.
function keyed(path, key, words = []) {
  if (!key) throw new Error("name a key");
  const plain = !DOTS.has(key) && !words.includes(key);
  return `${path.replace("{}", () => (plain ? encoded(key) : base64url(key)))}?key_format=${plain ? "string" : "base64url"}`;
}

function base64url(text) {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
}

const ISO = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/i;

// Of a day, or a time of it. Without a zone it is UTC, as for the command line: a browser would take its own.
function iso(text) {
  const [, day, hour = "00:00", zone = "Z"] = ISO.exec(text) ?? [];
  // A browser takes February 31 for a day of March.
  const isDay = day && new Date(Date.parse(`${day}T00:00Z`) || 0).toISOString().startsWith(day);
  return isDay ? Date.parse(`${day}T${hour}${zone}`) : NaN;
}

// Epoch milliseconds of `now`, `-15m`, a number, or a time in ISO 8601.
export function time(text, nowMs = Date.now()) {
  if (text === "now") return nowMs;
  // Eight digits are a day in ISO 8601, and a moment of 1970 in milliseconds: nobody knows which is meant.
  if (/^(\d{5,7}|\d{9,})$/.test(text)) return Number(text);
  const ago = /^-(\d+)([smhd])$/.exec(text);
  const at = ago ? nowMs - Number(ago[1]) * UNITS_MS[ago[2]] : iso(text);
  if (Number.isNaN(at)) throw new Error(`“${text}” is not a time: write now, -15m, -1h, 2026-01-31T18:00Z or epoch milliseconds`);
  return Math.max(0, Math.round(at));
}

function gap(text) {
  const long = /^(\d+)([smhd])$/.exec(text);
  if (!long) throw new Error("name the gap after which the app ends a session, such as 30m");
  return Number(long[1]) * UNITS_MS[long[2]];
}

export class QueryBox {
  #kinds = new Map();
  #waits = false;

  constructor() {
    byId("store").addEventListener("change", () => this.#offer());
    byId("kind").addEventListener("change", () => this.#showFields());
    byId("query").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#askOnceOffered();
    });
  }

  offer(stores) {
    const names = stores.map(({ store }) => store);
    if (names.join() === [...this.#kinds.keys()].join()) return;
    this.#kinds = new Map(stores.map(({ store, kind }) => [store, kind]));
    byId("store").replaceChildren(...names.map((name) => element("option", {}, name)));
    this.#offer();
    if (this.#waits) this.#askOnceOffered();
  }

  #queries = () => QUERIES[this.#kinds.get(byId("store").value)] ?? [get];

  #offer() {
    byId("kind").replaceChildren(...this.#queries().map(({ name }) => element("option", {}, name)));
    this.#showFields();
  }

  #chosen = () => this.#queries()[byId("kind").selectedIndex] ?? get;

  #showFields() {
    const { fields } = this.#chosen();
    for (const label of document.querySelectorAll("#query [data-for]")) label.hidden = !fields.includes(label.dataset.for);
  }

  // Who is quicker than the list of stores is answered when it comes.
  #askOnceOffered() {
    this.#waits = this.#kinds.size === 0;
    if (this.#waits) byId("answer").replaceChildren(element("p", { class: "quiet" }, "It is asked as soon as the stores are known."));
    else this.#ask();
  }

  async #ask() {
    const began = performance.now();
    try {
      const values = Object.fromEntries(["key", "from", "to", "gap", "limit"].map((name) => [name, byId(name).value.trim()]));
      const { path: pathOf, plot } = this.#chosen();
      const path = pathOf(encoded(byId("store").value), values);
      const response = await ask(path, 15000);
      const text = await response.text();
      this.#tell(response.headers, performance.now() - began);
      const drawn = plot && response.ok && text !== "[]" ? [plot(JSON.parse(text))] : [];
      byId("answer").replaceChildren(...drawn, element("pre", {}, indented(text)));
    } catch (error) {
      byId("origin").hidden = true;
      const told = error.name === "TimeoutError" ? "no answer came in time" : error.message;
      byId("answer").replaceChildren(element("p", { class: "bad" }, told));
    }
  }

  #tell(headers, tookMs) {
    const of = (name) => headers.get(`storekeeper-${name}`);
    const parts = [
      ["from", [of("served-by"), of("role") && `(${of("role")})`].filter(Boolean).join(" ")],
      ["partition", of("partition")],
      ["records behind", of("offset-lag")],
      ["staleness", of("staleness-ms") && `${of("staleness-ms")} ms`],
      ["complete", of("complete") === "false" ? "no" : null],
      ["more rows", of("next-cursor") && "follow"],
      ["took", `${tookMs < 10 ? tookMs.toFixed(1) : Math.round(tookMs)} ms`],
    ];
    byId("origin").replaceChildren(
      ...parts.filter(([, value]) => value).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    );
    byId("origin").hidden = false;
  }
}

// Indents JSON as it was written: parsing it would change the digits of its numbers. Of a list, a row is a line.
export function indented(text) {
  const rows = /^\s*\[/.test(text) ? 1 : Infinity;
  let depth = 0;
  const line = () => (depth > rows ? " " : `\n${"  ".repeat(depth)}`);
  return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+|\s+/g, (part, at) => {
    if (/^\s+$/.test(part)) return "";
    if (part === "{" || part === "[") {
      if (/^\s*[}\]]/.test(text.slice(at + 1, at + 40))) return part;
      depth++;
      return part + line();
    }
    if (part === "}" || part === "]") {
      if (/[{[]\s*$/.test(text.slice(Math.max(0, at - 40), at))) return part;
      const before = line();
      depth--;
      return (depth >= rows ? before : line()) + part;
    }
    return part === "," ? part + line() : part === ":" ? ": " : part;
  });
}
