// Elements, requests, and the state in the address.

export function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled" || key === "selected") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(name, attributes = {}, children = []) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const token = () => sessionStorage.getItem("token");

async function call(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token()) headers.authorization = `Bearer ${token()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const error = new Error(answer.error || `The server answered ${response.status}.`);
  error.status = response.status;
  throw error;
}

export const get = async (path) => (await call(path)).json();
export const getText = async (path) => (await call(path)).text();
export const post = async (path, body) =>
  (await call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();
export const send = async (path, content) =>
  (await call(path, { method: "POST", headers: { "content-type": "text/csv" }, body: content })).json();

export function readState() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "read", values: Object.fromEntries(new URLSearchParams(query || "")) };
}

// Keep the state in the address, without a step in the history.
export function keepState(view, values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
}

export function select(label, options, chosen, onchange) {
  const made = element("select", { onchange: (event) => onchange(event.target.value) },
    options.map(([value, text]) => element("option", { value, selected: String(value) === String(chosen) }, [text])));
  return element("label", { class: "field" }, [element("span", {}, [label]), made]);
}

export function download(name, text, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function table(header, rows, label, format = (value) => value) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, [
    element("table", {}, [
      element("thead", {}, [element("tr", {}, header.map((text) => element("th", { scope: "col" }, [text])))]),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((value) => element("td", {}, [String(format(value) ?? "")]))))),
    ]),
  ]);
}

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
export const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);
export const failure = (error) => element("p", { class: "error", role: "alert" }, [error.message]);
