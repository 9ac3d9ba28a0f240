// The picture: for each store a grid of nodes by partitions, a square for each replica.

import { grouped, short, svg } from "./dom.js";
import { standing } from "./cluster.js";

const SIZE = 30;
const GAP = 4;
const STEP = SIZE + GAP;
const HEAD = 40;
const LETTER = 7;
const LONGEST_NAME = 18;
const BETWEEN = 28;

// settling: it has joined a moment ago and is given no partitions yet.
function noteOn(node, cluster) {
  if (node.missing) return " · did not answer";
  if (node.suspect) return " · silent";
  if (node.settling) return " · settling";
  return node.name === cluster.asked ? " · here" : "";
}

export class Picture {
  #box;
  #detail;
  #chosen = null;
  #places = [];
  #names = 0;

  constructor(box, detail) {
    this.#box = box;
    this.#detail = detail;
    box.addEventListener("keydown", (event) => this.#walk(event));
    box.addEventListener("pointerover", (event) => this.#choose(event.target.closest?.(".replica")?.dataset.name));
  }

  draw(cluster, pace) {
    const letters = (node) => Math.min(node.name.length, LONGEST_NAME) + noteOn(node, cluster).length;
    const longest = Math.max(...cluster.nodes.map(letters));
    this.#names = Math.max(48, longest * LETTER + 12);
    const rows = [];
    let line = [];
    let width = 0;
    const room = Math.max(this.#box.clientWidth || 1180, 400);
    for (const store of cluster.stores) {
      const wide = this.#names + store.partitions * STEP + BETWEEN;
      if (line.length && width + wide - BETWEEN > room) {
        rows.push(line);
        [line, width] = [[], 0];
      }
      line.push({ store, x: width, wide });
      width += wide;
    }
    if (line.length) rows.push(line);
    const height = HEAD + cluster.nodes.length * STEP + 16;
    const whole = Math.max(...rows.flat().map(({ x, wide }) => x + wide), 1) - BETWEEN + 2;
    this.#places = [];
    const drawn = svg("svg", { width: whole, height: rows.length * height, "aria-hidden": "true" });
    rows.forEach((stores, index) => {
      for (const { store, x } of stores) drawn.append(this.#grid(cluster, store, x, index * height, pace));
    });
    this.#box.replaceChildren(drawn);
    this.#mark();
  }

  #grid(cluster, store, x, y, pace) {
    const grid = svg("g", { transform: `translate(${x} ${y})` });
    grid.append(svg("text", { x: 0, y: 14, class: "store-name" }, store.store));
    for (let partition = 0; partition < store.partitions; partition++) {
      const middle = this.#names + partition * STEP + SIZE / 2;
      grid.append(svg("text", { x: middle, y: HEAD - 8, "text-anchor": "middle" }, partition));
    }
    cluster.nodes.forEach((node, row) => {
      const top = HEAD + row * STEP;
      const name = node.name.length > LONGEST_NAME ? `${node.name.slice(0, LONGEST_NAME - 1)}…` : node.name;
      const words = svg("text", { x: 0, y: top + SIZE / 2 + 4, class: `node-name${node.suspect ? " suspect" : ""}` }, name);
      words.append(noteOn(node, cluster));
      grid.append(words);
      for (let partition = 0; partition < store.partitions; partition++) {
        const left = this.#names + partition * STEP;
        const replica = node.replicas.find((one) => one.store === store.variant && one.partition === partition);
        if (replica) grid.append(this.#replica(node, replica, left, top, pace));
        else grid.append(svg("circle", { cx: left + SIZE / 2, cy: top + SIZE / 2, r: 1.5, class: "none" }));
      }
    });
    return grid;
  }

  #replica(node, replica, left, top, pace) {
    const kind = standing(replica);
    const name = `${node.name}/${replica.store}/${replica.partition}`;
    const level = kind === "restoring" ? pace.done(node.name, replica) : kind === "silent" ? 0 : 1;
    const filled = Math.round(level * SIZE);
    const group = svg("g", { class: `replica ${kind}${node.suspect ? " away" : ""}`, "data-name": name });
    group.append(
      svg("rect", { x: left, y: top, width: SIZE, height: SIZE, rx: 5, class: "frame" }),
      svg("rect", { x: left, y: top + SIZE - filled, width: SIZE, height: filled, rx: 5, class: "level" }),
    );
    const lag = replica.offset_lag ?? 0;
    if (lag > 0 && kind !== "restoring") group.append(svg("text", { x: left + SIZE / 2, y: top + SIZE / 2 + 3.5 }, short(lag)));
    this.#places.push({ name, node, replica, kind, x: left + 1e5 * this.#places.length, row: top });
    return group;
  }

  #walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: "down", ArrowUp: "up" }[event.key];
    if (step === undefined || !this.#places.length) return;
    event.preventDefault();
    const at = this.#places.findIndex(({ name }) => name === this.#chosen);
    let next = at < 0 ? 0 : at + step;
    if (at >= 0 && typeof step === "string") {
      const { store, partition } = this.#places[at].replica;
      const column = this.#places.filter(({ replica }) => replica.store === store && replica.partition === partition);
      const place = column.findIndex(({ name }) => name === this.#chosen) + (step === "down" ? 1 : -1);
      next = this.#places.indexOf(column[Math.min(Math.max(place, 0), column.length - 1)]);
    }
    this.#choose(this.#places[Math.min(Math.max(next, 0), this.#places.length - 1)].name);
  }

  #choose(name) {
    if (!name) return;
    this.#chosen = name;
    this.#mark();
  }

  #mark() {
    for (const drawn of this.#box.querySelectorAll(".replica")) {
      drawn.classList.toggle("chosen", drawn.dataset.name === this.#chosen);
    }
    const place = this.#places.find(({ name }) => name === this.#chosen);
    if (place) this.#tell(place);
  }

  #tell({ node, replica, kind }) {
    const title = document.createElement("strong");
    title.textContent = `${replica.store}, partition ${replica.partition}, on ${node.name}`;
    const lag = replica.offset_lag === null ? "lag unknown" : `${grouped(replica.offset_lag)} records behind`;
    const doing = { active: "active", standby: "standby", restoring: `restoring as ${replica.role}`, silent: "can’t answer" }[kind];
    const parts = [doing, lag, `position ${replica.offset === null ? "unknown" : grouped(replica.offset)}`];
    if (replica.skipped_records) {
      parts.push(`${grouped(replica.skipped_records)} changelog records skipped, the last at ${grouped(replica.last_skipped_offset)}`);
    }
    if (replica.unranked_rows) parts.push(`${grouped(replica.unranked_rows)} rows without a score`);
    if (node.suspect) parts.push("as of when this node was last heard");
    if (replica.error) parts.push(replica.error);
    const text = `: ${parts.join(", ")}`;
    if (this.#detail.textContent !== title.textContent + text) this.#detail.replaceChildren(title, text);
  }
}
