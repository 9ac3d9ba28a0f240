// Requests to the node that the page came from, and to no other.

const PATIENCE_MS = 4000;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `the node answered with status ${status}`);
    this.status = status;
    this.kind = String(problem.type ?? "").split(":").pop();
  }
}

export const token = {
  get: () => sessionStorage.getItem("token"),
  set: (value) => sessionStorage.setItem("token", value),
};

export async function ask(path, patienceMs = PATIENCE_MS) {
  const headers = token.get() ? { authorization: `Bearer ${token.get()}` } : {};
  const response = await fetch(path, { headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(patienceMs) });
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

export const askJson = async (path) => (await ask(path)).json();
