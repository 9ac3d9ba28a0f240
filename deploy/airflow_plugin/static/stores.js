"use strict";

const PAUSE_MS = 3000;
const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

function age(ms) {
  if (ms === null) return "-";
  const unit = UNITS.find(([size]) => ms >= size);
  return unit ? `${Math.floor(ms / unit[0])} ${unit[1]}` : "now";
}

function count(number) {
  return number === null ? "-" : Math.round(number).toLocaleString("en");
}

function about(number) {
  return number === null ? "-" : `~${count(number)}`;
}

function verdict(words, good) {
  return { words, kind: good ? "good" : "bad" };
}

function lastBatch(app) {
  return app.last_batch_age_ms === null && app.up_ms !== null ? `none in ${age(app.up_ms)}` : age(app.last_batch_age_ms);
}

const TABLES = {
  stores: [
    ["Store", (row) => row.store],
    ["Kind", (row) => row.kind],
    ["Entries (estimate)", (row) => about(row.estimated_entries), "number"],
    ["Replicas that serve", (row) => verdict(`${row.serving} of ${row.replicas}`, row.replicas > 0 && row.serving === row.replicas)],
    ["Records behind", (row) => count(row.lag_records), "number"],
    ["Last snapshot", (row) => age(row.snapshot_age_ms)],
    ["Rows in it", (row) => count(row.snapshot_rows), "number"],
    ["Changelog", (row) => row.topic],
  ],
  apps: [
    ["App", (row) => ({ words: row.app, page: `topology/${encodeURIComponent(row.app)}` })],
    ["State", (row) => (row.state === "STOPPED" ? row.state : verdict(row.state, row.healthy))],
    ["Generation", (row) => count(row.generation), "number"],
    ["Records/s", (row) => count(row.input_rows_per_second), "number"],
    ["Batch ms", (row) => count(row.batch_duration_ms), "number"],
    ["Records behind", (row) => count(row.lag_records), "number"],
    ["Last batch", lastBatch],
    ["Dead letters", (row) => count(row.dead_letters), "number"],
    ["Left out", (row) => count(row.dropped), "number"],
    ["State rows", (row) => count(row.state_rows), "number"],
    ["Says", (row) => row.error ?? row.restoring ?? "", "words"],
  ],
  nodes: [
    ["Node", (row) => row.node],
    ["Address", (row) => ({ words: row.address, link: row.address })],
    ["Replicas that serve", (row) => (row.replicas === null ? "-" : `${row.serving} of ${row.replicas}`)],
    ["State", (row) => verdict(row.state, row.error === null)],
    ["Says", (row) => row.error ?? "", "words"],
  ],
  verdicts: [
    ["Table", (row) => row.table],
    ["Last batch", (row) => (row.outcome === "discarded" ? row.outcome : verdict(row.outcome, !row.open))],
    ["Rows", (row) => count(row.rows), "number"],
    ["Decided", (row) => age(row.age_ms)],
  ],
  exits: [
    ["Process", (row) => row.process],
    ["Times", (row) => count(row.count), "number"],
    ["Last", (row) => row.last],
    ["Ago", (row) => age(row.age_ms)],
  ],
};

function cell(tag, shown, kind) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  const { words, kind: mood, link, page } = typeof shown === "object" ? shown : { words: shown };
  if (mood) made.classList.add(mood);
  if (page) {
    const anchor = document.createElement("a");
    anchor.href = page;
    anchor.textContent = words;
    made.append(anchor);
  } else if (link && /^https?:\/\//.test(link)) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer";
    anchor.textContent = words;
    made.append(anchor);
  } else {
    made.textContent = words;
  }
  return made;
}

function draw(name, rows) {
  const columns = TABLES[name];
  const head = document.createElement("tr");
  head.append(...columns.map(([title, , kind]) => cell("th", title, kind)));
  const body = rows.map((row) => {
    const made = document.createElement("tr");
    made.append(...columns.map(([, show, kind]) => cell("td", show(row), kind)));
    return made;
  });
  if (!body.length) {
    const none = document.createElement("tr");
    const only = cell("td", "nothing to show", "empty");
    only.colSpan = columns.length;
    none.append(only);
    body.push(none);
  }
  document.getElementById(name).replaceChildren(head, ...body);
}

function tell(problem) {
  const place = document.getElementById("problem");
  place.hidden = !problem;
  place.textContent = problem ?? "";
}

function show(glance) {
  for (const name of Object.keys(TABLES)) draw(name, glance[name]);
  tell(glance.unreachable);
  const ill = glance.apps.filter((app) => !app.healthy).length;
  const silent = glance.nodes.filter((node) => node.error !== null).length;
  const parts = [`${glance.stores.length} stores`, `${glance.apps.length} apps`, `${glance.nodes.length} nodes`];
  if (ill) parts.push(ill === 1 ? "1 app is ill" : `${ill} apps are ill`);
  if (silent) parts.push(silent === 1 ? "1 node is silent" : `${silent} nodes are silent`);
  document.getElementById("summary").textContent = `${parts.join(", ")} · ${new Date(glance.at_ms).toLocaleTimeString()}`;
}

async function look() {
  try {
    const answer = await fetch("glance", { credentials: "same-origin" });
    if (answer.ok) show(await answer.json());
    else tell(answer.status === 401 || answer.status === 403 ? "Airflow says that you may not see this: sign in again." : `Airflow answered with status ${answer.status}.`);
  } catch {
    tell("Airflow doesn't answer.");
  }
  setTimeout(look, PAUSE_MS);
}

look();
