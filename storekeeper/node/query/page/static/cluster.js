// What the node knows of the cluster, in one shape: nodes, and the replicas that each of them holds. Missing ones hold
// none: others have taken over.

import { askJson, Refused } from "./node.js";

export async function look() {
  const [cluster, lag, stores] = await Promise.all([clusterOrNull(), askJson("/state/lag"), askJson("/state/stores")]);
  const missing = (cluster?.missing ?? []).map((node) => ({ ...node, missing: true }));
  const nodes = cluster === null ? await instances(lag.node) : [...cluster.members, ...missing];
  const found = new Map(nodes.map((node) => [node.name, { ...node, replicas: node.replicas ?? [] }]));
  const own = found.get(lag.node) ?? { name: lag.node, address: location.origin, suspect: false };
  // Of itself the node knows more than what its last heartbeat said.
  found.set(lag.node, { ...own, replicas: lag.replicas, suspect: false });
  return { asked: lag.node, stores: withPartitions(stores, found), nodes: sorted(found) };
}

async function clusterOrNull() {
  try {
    return await askJson("/state/cluster");
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

async function instances(asked) {
  const listed = await askJson("/state/instances");
  const here = `${location.hostname}:${location.port}`;
  return listed.map(({ host, port }) => {
    const address = `${host}:${port}`;
    return { name: address === here ? asked : address, address: `http://${address}`, suspect: false };
  });
}

const sorted = (nodes) => [...nodes.values()].sort((a, b) => a.name.localeCompare(b.name));

function withPartitions(stores, nodes) {
  const most = new Map();
  for (const node of nodes.values()) {
    for (const { store, partition } of node.replicas) most.set(store, Math.max(most.get(store) ?? 0, partition + 1));
  }
  return stores.map((store) => {
    // Rows of another changelog than the configured one are those of `store@topic`.
    const live = `${store.store}@${store.topic}`;
    const variant = most.has(live) ? live : store.store;
    return { ...store, variant, partitions: store.partitions ?? most.get(variant) ?? 0 };
  });
}

// active, standby: answers. restoring: catching up. silent: can't answer.
export function standing(replica) {
  if (replica.serving) return replica.role === "active" ? "active" : "standby";
  return ["CREATED", "RESTORING"].includes(replica.state) ? "restoring" : "silent";
}

export class RestorePace {
  #seen = new Map();

  // Progress of each replica that restores: from 0 to 1 of what was left when it was first seen, and the seconds left.
  look(nodes, nowS) {
    const found = [];
    for (const node of nodes) {
      for (const replica of node.replicas) {
        const name = `${node.name} · ${replica.store} ${replica.partition}`;
        if (replica.serving || standing(replica) !== "restoring" || replica.offset_lag === null) this.#seen.delete(name);
        else found.push({ name, ...this.#progress(name, replica.offset_lag, nowS) });
      }
    }
    return found;
  }

  #progress(name, left, nowS) {
    const seen = this.#seen.get(name) ?? { atS: nowS, left, most: left, perS: null };
    if (nowS > seen.atS) {
      const perS = (seen.left - left) / (nowS - seen.atS);
      seen.perS = seen.perS === null ? perS : seen.perS + 0.3 * (perS - seen.perS);
    }
    Object.assign(seen, { atS: nowS, left, most: Math.max(seen.most, left) });
    this.#seen.set(name, seen);
    return { left, done: seen.most ? 1 - left / seen.most : 1, etaS: seen.perS > 0 ? left / seen.perS : null };
  }

  done(nodeName, replica) {
    const seen = this.#seen.get(`${nodeName} · ${replica.store} ${replica.partition}`);
    return seen && seen.most ? 1 - seen.left / seen.most : 0;
  }
}
