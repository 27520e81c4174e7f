// The shell: models, views, and the state in the address.
import { element, failure, get, readState } from "./dom.js";

const views = {
  read: () => import("./read.js"),
  machine: () => import("./machine.js"),
  sure: () => import("./sure.js"),
  file: () => import("./file.js"),
};
const main = document.getElementById("main");
let models = null;
let shown = null;

async function show() {
  const { view, values } = readState();
  const name = view in views ? view : "read";
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    models ??= (await get("/api/models")).models;
    const { title, render } = await views[name]();
    document.title = `${title} – sttau`;
    shown?.();
    const content = element("div", { class: "view" });
    main.replaceChildren(element("h1", {}, [title]), content);
    shown = (await render(content, models, values)) || null;
  } catch (error) {
    main.replaceChildren(error.status === 401 ? login() : failure(error));
  }
}

function login() {
  const field = element("input", { type: "password", autocomplete: "off", required: true });
  return element("form", { class: "card", onsubmit: (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", field.value);
    show();
  } }, [
    element("h1", {}, ["A token is needed"]),
    element("label", { class: "field" }, [element("span", {}, ["Token"]), field]),
    element("button", {}, ["Continue"]),
  ]);
}

addEventListener("hashchange", () => show().then(() => main.focus({ preventScroll: true })));
show();
