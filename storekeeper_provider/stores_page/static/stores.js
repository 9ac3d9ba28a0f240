"use strict";

const PAUSE_MS = 3000;

function cell(tag, { words, severity, link }, { title, number, prose } = {}) {
  const made = document.createElement(tag);
  if (title) made.dataset.title = title;
  if (number) made.classList.add("number");
  if (prose) made.classList.add("words");
  if (severity) made.classList.add(severity);
  const apart = /^(https?:\/\/|data_docs\/[\w-]+\/index\.html$)/.test(link);
  if (apart || /^topology\/\w[\w.-]*$/.test(link)) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = words;
    if (apart) {
      anchor.target = "_blank";
      anchor.rel = "noopener noreferrer";
    }
    made.append(anchor);
  } else {
    made.textContent = words;
  }
  return made;
}

function draw({ name, columns, rows }) {
  const head = document.createElement("tr");
  head.append(...columns.map((column) => cell("th", { words: column.title }, column)));
  const body = rows.map((row) => {
    const made = document.createElement("tr");
    made.append(...row.map((shown, at) => cell("td", shown, columns[at])));
    return made;
  });
  if (!body.length) {
    const none = document.createElement("tr");
    const only = cell("td", { words: "nothing to show" });
    only.classList.add("empty");
    only.colSpan = columns.length;
    none.append(only);
    body.push(none);
  }
  document.getElementById(name).replaceChildren(head, ...body);
}

function report(problem) {
  const place = document.getElementById("problem");
  place.hidden = !problem;
  place.textContent = problem ?? "";
}

function show({ at_ms, summary, unreachable, tables }) {
  tables.forEach(draw);
  report(unreachable);
  document.getElementById("summary").textContent = `${summary} · ${new Date(at_ms).toLocaleTimeString()}`;
}

async function look() {
  try {
    const answer = await fetch("glance", { credentials: "same-origin" });
    if (answer.ok) show(await answer.json());
    else if (answer.status === 503) report((await answer.json()).detail);
    else report(answer.status === 401 || answer.status === 403 ? "Airflow says that you may not see this: sign in again." : `Airflow answered with status ${answer.status}.`);
  } catch {
    report("Airflow doesn't answer.");
  }
  setTimeout(look, PAUSE_MS);
}

look();
