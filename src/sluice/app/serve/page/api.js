// The REST API. Every refusal becomes an Error with the problem's own words; a missing token is told apart.

export class TokenNeeded extends Error {}

export async function call(method, path, body, type = "application/json") {
  const headers = body === undefined ? {} : { "Content-Type": type };
  const content = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const answer = await fetch(path, { method, headers, body: content, credentials: "same-origin" });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  const text = problem.detail ?? `The service answers ${answer.status}.`;
  throw answer.status === 401 ? new TokenNeeded(text) : new Error(text);
}

export const get = async (path) => (await call("GET", path)).json();

export const stream = (name) => `/api/streams/${encodeURIComponent(name)}`;

export function element(tag, properties = {}, ...children) {
  const { dataset, ...others } = properties;
  const made = Object.assign(document.createElement(tag), others);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
