// Try your file: what was understood, and predictions as a table to download.
import { download, element, failure, keepState, number, select, send, table } from "./dom.js";

export const title = "Try your file";
const MOST = 200;

export async function render(root, models, values) {
  const able = models.filter((one) => one.reads_files);
  if (!able.length) {
    root.append(element("p", {}, ["None of these models knows the columns of its training data. Models of sttau train do."]));
    return null;
  }
  const state = { model: able.some((one) => one.name === values.model) ? values.model : able[0].name };
  const hint = element("p", { class: "note" });
  const output = element("div", { "aria-live": "polite" });
  const input = element("input", { type: "file", accept: ".csv,.tsv,.jsonl,.txt", onchange: () => input.files[0] && load(input.files[0]) });
  const drop = element("div", { class: "drop card" }, [
    element("label", { class: "field" }, [element("span", {}, ["Choose a file, or drop one here (.csv, .tsv, .jsonl, .txt)"]), input]), hint]);
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) load(event.dataTransfer.files[0]);
  });
  const describe = () => {
    const own = able.find((one) => one.name === state.model);
    const roles = Object.entries(own.columns).filter(([role]) => role !== "target").map(([role, column]) => `${column} (${role})`);
    hint.textContent = `Columns: ${[...roles, ...own.feature_names].join(", ")}. The file is read in memory and not kept.`;
  };
  describe();
  keepState("file", state);
  root.append(
    element("p", { class: "lead" }, ["A table with the columns of the training data; the target may be missing."]),
    element("div", { class: "controls card" }, [select("Model", able.map((one) => [one.name, one.name]), state.model, (value) => {
      state.model = value;
      describe();
      keepState("file", state);
      output.replaceChildren();
    })]),
    drop, output,
  );

  async function load(file) {
    output.replaceChildren(element("p", {}, [`Reading ${file.name} …`]));
    try {
      const found = await send(`/api/file?model=${encodeURIComponent(state.model)}&name=${encodeURIComponent(file.name)}`, await file.arrayBuffer());
      show(file.name, found);
    } catch (error) {
      output.replaceChildren(failure(error));
    }
  }

  function show(name, found) {
    const cell = (value) => (typeof value === "number" && !Number.isInteger(value) ? number(value, 3) : value);
    const abstained = found.rows.filter((row) => row.abstain).length;
    const text = [found.columns, ...found.rows.map((row) => found.columns.map((column) => quote(row[column])))].map((row) => row.join(",")).join("\n");
    output.replaceChildren(
      element("section", { class: "card" }, [element("h2", {}, ["What was understood"]), element("pre", { tabindex: "0" }, [found.summary])]),
      element("section", { class: "card" }, [
        element("h2", {}, ["Predictions"]),
        element("p", { class: "sentence" }, [`${found.rows.length} series${found.columns.includes("abstain") ? `, ${abstained} of them too uncertain to be used` : ""}.`]),
        element("button", { type: "button", onclick: () => download(`${name.replace(/\.\w+$/, "")}-predictions.csv`, `${text}\n`, "text/csv") }, ["Download as CSV"]),
        table(found.columns, found.rows.slice(0, MOST).map((row) => found.columns.map((column) => row[column])), "Predictions", cell),
        found.rows.length > MOST ? element("p", { class: "note" }, [`The first ${MOST} rows; the download has all.`]) : null,
      ]),
    );
  }
  return null;
}

const quote = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : value);
