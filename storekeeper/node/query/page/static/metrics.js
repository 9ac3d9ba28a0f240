// Rate and latency of point queries, from two looks at /metrics.

const NAME = "state_store_operation_seconds";
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;

// Sums over the stores: how many gets took at most so long.
export function readGets(text) {
  const buckets = new Map();
  let count = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith(NAME) || !line.includes('op="get"')) continue;
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (name === `${NAME}_count`) count += Number(value);
    if (name !== `${NAME}_bucket`) continue;
    const bound = /le="([^"]+)"/.exec(labels)[1];
    const seconds = bound === "+Inf" ? Infinity : Number(bound);
    buckets.set(seconds, (buckets.get(seconds) ?? 0) + Number(value));
  }
  return { count, buckets };
}

export class Gets {
  #last = null;
  rates = [];

  look(text, nowS) {
    const now = { ...readGets(text), nowS };
    const last = this.#last;
    this.#last = now;
    if (last === null || now.count < last.count || nowS <= last.nowS) return null;
    const perS = (now.count - last.count) / (nowS - last.nowS);
    this.rates = [...this.rates, perS].slice(-60);
    return { perS, p50: quantile(0.5, last, now), p99: quantile(0.99, last, now) };
  }
}

// The upper bound of the bucket that holds it, null if there was no get meanwhile.
function quantile(share, last, now) {
  const wanted = (now.count - last.count) * share;
  if (wanted <= 0) return null;
  for (const [bound, count] of [...now.buckets].sort(([a], [b]) => a - b)) {
    if (count - (last.buckets.get(bound) ?? 0) >= wanted) return bound;
  }
  return Infinity;
}

export function shortTime(seconds) {
  if (seconds === null) return "–";
  if (!Number.isFinite(seconds)) return "> 1 s";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  return seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(1)} s`;
}
