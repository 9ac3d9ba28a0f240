// Looks every second, draws what it found; when the node is silent, says so and keeps the last picture, greyed.

import { look, RestorePace } from "./cluster.js";
import { byId, counted, duration, element, grouped, setText, svg } from "./dom.js";
import { Gets, shortTime } from "./metrics.js";
import { ask, Refused, token } from "./node.js";
import { Picture } from "./picture.js";
import { QueryBox } from "./query.js";

const EVERY_MS = 1000;

const picture = new Picture(byId("picture"), byId("detail"));
const query = new QueryBox();
const pace = new RestorePace();
const gets = new Gets();
let lastSeen = null;

async function once() {
  try {
    const [cluster, metrics] = await Promise.all([look(), ask("/metrics").then((response) => response.text())]);
    const nowS = performance.now() / 1000;
    const restores = pace.look(cluster.nodes, nowS);
    picture.draw(cluster, pace);
    query.offer(cluster.stores);
    showFigures(cluster);
    showGets(gets.look(metrics, nowS));
    showRestores(restores, cluster.nodes);
    showStores(cluster.stores);
    lastSeen = new Date();
    showWell(cluster);
  } catch (error) {
    showUnwell(error);
  }
}

function showWell(cluster) {
  const away = cluster.nodes.filter((node) => node.missing);
  const troubles = new Set(away.map((node) => `Node ${node.name} at ${node.address} did not answer for ${duration(node.silent_s)}`));
  for (const { error } of cluster.nodes.flatMap((node) => node.replicas)) if (error) troubles.add(error);
  setText("alarm", [...troubles].join(" · "));
  byId("alarm").hidden = troubles.size === 0;
  byId("sign-in").hidden = true;
  document.body.classList.remove("stale");
  setText("summary", `as node ${cluster.asked} sees it`);
}

function showUnwell(error) {
  document.body.classList.toggle("stale", lastSeen !== null);
  if (error instanceof Refused && error.status === 401) {
    byId("sign-in").hidden = false;
    setText("summary", "The node asks who you are.");
    return;
  }
  const since = lastSeen === null ? "" : ` The picture is of ${lastSeen.toLocaleTimeString()}.`;
  const why = error instanceof Refused ? error.message : `The node at ${location.host} does not answer.`;
  byId("alarm").hidden = false;
  setText("alarm", why + since);
  setText("summary", "trying again every second");
}

function showFigures({ nodes, stores }) {
  const silent = nodes.filter((node) => node.suspect);
  const named = (words, found) => (found.length ? [`${words}: ${found.map(({ name }) => name).join(", ")}`] : []);
  const notes = [...named("did not answer", silent.filter((node) => node.missing)), ...named("silent", silent.filter((node) => !node.missing))];
  setText("figure-nodes", String(nodes.length - silent.length));
  setText("figure-nodes-note", notes.join(" · ") || "all send heartbeats");
  const replicas = nodes.flatMap((node) => node.replicas);
  const serving = nodes.filter((node) => !node.suspect).flatMap((node) => node.replicas).filter((replica) => replica.serving);
  setText("figure-serving", `${serving.length} / ${replicas.length}`);
  const partitions = stores.reduce((sum, store) => sum + store.partitions, 0);
  setText("figure-serving-note", `${counted(partitions, "partition")} of ${counted(stores.length, "store")}`);
  const worst = serving.reduce((found, one) => ((one.offset_lag ?? 0) > (found?.offset_lag ?? 0) ? one : found), null);
  setText("figure-lag", grouped(worst?.offset_lag ?? 0));
  setText("figure-lag-note", worst ? `${worst.store}, partition ${worst.partition}` : "of those that serve");
}

function showGets(found) {
  if (found === null) return;
  setText("figure-rate", found.perS < 10 ? found.perS.toFixed(1) : grouped(found.perS));
  setText("figure-latency", found.p50 === null ? "–" : `${shortTime(found.p50)} · ${shortTime(found.p99)}`);
  const most = Math.max(...gets.rates, 1);
  const points = gets.rates.map((rate, at) => `${120 - (gets.rates.length - 1 - at) * 2} ${23 - (rate / most) * 22}`);
  byId("spark").replaceChildren(svg("path", { d: `M${points.join("L")}` }));
}

function showRestores(restores, nodes) {
  const waiting = nodes.flatMap((node) => node.replicas).filter((replica) => !replica.serving).length;
  const bars = restores.map(({ name, left, done, etaS }) => {
    const eta = etaS === null ? "" : `, about ${duration(etaS)}`;
    const bar = element("progress", { max: 1, value: done.toFixed(3), "aria-label": `Restore of ${name}` });
    return element("div", { class: "bar" }, element("span", {}, name), element("small", {}, `${grouped(left)} records left${eta}`), bar);
  });
  byId("restores").replaceChildren(...(bars.length ? bars : [element("p", { class: "quiet" }, waiting ? `${counted(waiting, "replica")} can’t answer.` : "Every replica has caught up.")]));
}

function showStores(stores) {
  byId("stores").replaceChildren(
    ...stores.map(({ store, kind, topic, partitions }) =>
      element(
        "tr", {},
        element("td", { class: "name" }, store), element("td", {}, kind), element("td", { class: "code" }, topic),
        element("td", { class: "number" }, partitions),
      ),
    ),
  );
}

byId("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  localStorage.setItem("theme", dark === "dark" ? "light" : "dark");
  document.documentElement.dataset.theme = localStorage.getItem("theme");
});
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value);
  byId("token").value = "";
  once();
});

async function forever() {
  if (!document.hidden) await once();
  setTimeout(forever, EVERY_MS);
}
forever();
