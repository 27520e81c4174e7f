// The interface of the server, from its OpenAPI description.
import { element, get } from "./dom.js";

const resolve = (api, schema) =>
  schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema?.anyOf ? schema.anyOf[0] : schema;

const kind = (schema) =>
  schema.$ref ? schema.$ref.split("/").pop() : (schema.enum ? schema.enum.join(" | ") : "") || schema.type ||
  (schema.anyOf || []).map(kind).join(" or ") || "any";

function fields(schema) {
  const rows = Object.entries(schema?.properties || {}).map(([name, own]) =>
    element("tr", {}, [
      element("th", { scope: "row" }, [element("code", {}, [name])]),
      element("td", {}, [kind(own)]),
      element("td", {}, [(schema.required || []).includes(name) ? "required" : "default" in own ? JSON.stringify(own.default) : ""]),
      element("td", {}, [own.description || ""]),
    ]));
  return rows.length ? table(rows) : null;
}

function table(rows) {
  const head = ["name", "type", "default", "meaning"].map((text) => element("th", { scope: "col" }, [text]));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Fields" }, [
    element("table", {}, [element("thead", {}, [element("tr", {}, head)]), element("tbody", {}, rows)]),
  ]);
}

function route(api, path, method, own) {
  const parameters = (own.parameters || []).map((one) =>
    element("tr", {}, [
      element("th", { scope: "row" }, [element("code", {}, [one.name])]),
      element("td", {}, [kind(one.schema)]),
      element("td", {}, [one.required ? "required" : "default" in one.schema ? JSON.stringify(one.schema.default) : ""]),
      element("td", {}, [one.description || one.schema.description || ""]),
    ]));
  const content = own.requestBody?.content || {};
  const body = content["application/json"] ? fields(resolve(api, content["application/json"].schema)) : null;
  return element("section", { class: "card" }, [
    element("h2", {}, [element("code", {}, [`${method.toUpperCase()} ${path}`])]),
    element("p", {}, [own.summary || ""]),
    parameters.length ? element("h3", {}, ["Parameters"]) : null,
    parameters.length ? table(parameters) : null,
    body ? element("h3", {}, ["Body (JSON)"]) : content["text/csv"] ? element("p", {}, ["Body: the content of the file."]) : null,
    body,
  ]);
}

const api = await get("/openapi.json");
const sections = Object.entries(api.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, own]) => route(api, path, method, own)));
const stream = element("section", { class: "card" }, [
  element("h2", {}, [element("code", {}, ["WebSocket /api/stream"])]),
  element("p", {}, ['The first message names the model: {"model": "digits", "samples": 10}. Every further one holds an element, ' +
    '{"element": [0.1, 0.5]} or {"element": "word"}; {"reset": true} begins a new sequence. Each is answered with the prediction.']),
]);
document.getElementById("paths").replaceChildren(...sections, stream);
