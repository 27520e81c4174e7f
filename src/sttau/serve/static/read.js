// Read along: the prediction, its uncertainty and the states, as each element is read.
import { chart } from "./chart.js";
import { element, failure, get, keepState, number, percent, post, select, svg, table } from "./dom.js";

export const title = "Read along";

const kinds = { series: "series", strings: "strings", text: "texts", "token ids": "token ids" };

export async function render(root, models, values) {
  const state = { model: values.model, compare: values.compare || "", example: values.example ?? "", input: values.input ?? "",
    step: Number(values.step ?? -1) };
  const model = () => models.find((one) => one.name === state.model) || models[0];
  state.model = model().name;
  let timer = null;
  let latest = 0; // an answer that is overtaken by another request is not shown
  const controls = element("div", { class: "controls card" });
  const output = element("div", { "aria-busy": "false" });
  root.append(
    element("p", { class: "lead" }, ["Choose or enter a sequence, then move through it: the prediction and its uncertainty after each element."]),
    controls, output,
  );
  const keep = () => keepState("read", state);

  async function showControls() {
    const own = model();
    const isText = own.reads !== "series";
    const others = models.filter((one) => one.name !== own.name && one.reads === own.reads && one.features === own.features);
    if (!others.some((one) => one.name === state.compare)) state.compare = "";
    let examples = { names: [], targets: [] };
    if (own.has_examples) examples = await get(`/api/examples?model=${encodeURIComponent(own.name)}`);
    if (!state.input && state.example === "" && examples.names.length) state.example = "0";
    if (!state.input && !examples.names.length) state.input = own.reads === "strings" ? own.vocabulary.slice(1).join("").repeat(3) : "";
    const field = isText
      ? element("input", { type: "text", value: state.input, spellcheck: "false", maxlength: "4000" })
      : element("textarea", { rows: "3", value: state.input, spellcheck: "false",
        placeholder: `one step per line, ${own.features} numbers separated by commas` });
    const upload = isText ? null : element("input", { type: "file", accept: ".csv,.txt,text/csv", onchange: async (event) => {
      const [file] = event.target.files;
      if (file) field.value = (await file.text()).split("\n").filter((line) => /^[\s\d.,;eE+-]+$/.test(line) && line.trim()).join("\n");
    } });
    controls.replaceChildren(
      select("Model", models.map((one) => [one.name, one.name]), own.name, (value) => {
        Object.assign(state, { model: value, example: "", input: "", step: -1 });
        showControls().then(read);
      }),
      select("Compare with", [["", "no other model"], ...others.map((one) => [one.name, one.name])], state.compare, (value) => {
        state.compare = value;
        read();
      }),
      examples.names.length
        ? select(`Examples (${kinds[own.reads]})`, [["", "own input"], ...examples.names.map((name, place) =>
          [place, `${isText ? place + 1 : name}: ${examples.targets[place] ?? "not among the classes"}`])], state.input ? "" : state.example,
        (value) => { Object.assign(state, { example: value, input: "", step: -1 }); if (value !== "") read(); })
        : "",
      element("form", { class: "own", onsubmit: (event) => {
        event.preventDefault();
        Object.assign(state, { input: field.value, example: "", step: -1 });
        read();
      } }, [
        element("label", { class: "field wide" }, [element("span", {}, [isText ? "Or type" : "Or paste a series"]), field]),
        upload && element("label", { class: "field" }, [element("span", {}, ["Or a file of numbers"]), upload]),
        element("button", {}, ["Read"]),
      ]),
    );
  }

  async function inputs() {
    const own = model();
    if (!state.input && state.example !== "") {
      const found = await get(`/api/examples?model=${encodeURIComponent(own.name)}&index=${encodeURIComponent(state.example)}`);
      return { value: found.inputs, target: found.target };
    }
    if (own.reads === "strings" || own.reads === "text") return { value: state.input };
    const rows = state.input.trim().split("\n").map((line) => line.split(/[,;\s]+/).filter(Boolean).map(Number));
    if (!state.input.trim()) throw new Error("Enter a sequence first.");
    if (rows.some((row) => row.some(Number.isNaN))) throw new Error("A line holds something that is not a number.");
    return { value: own.reads === "series" ? rows : rows.flat() };
  }

  async function read() {
    clearInterval(timer);
    latest += 1;
    const own = latest;
    keep();
    output.setAttribute("aria-busy", "true");
    try {
      const given = await inputs();
      const names = [state.model, state.compare].filter(Boolean);
      const answers = await Promise.all(names.map((name) => post("/api/predict", { model: name, inputs: given.value, per_step: true })));
      if (own !== latest) return;
      show(given, names.map((name, place) => ({ model: models.find((one) => one.name === name), found: answers[place].predictions[0] })));
    } catch (error) {
      if (own !== latest) return;
      output.replaceChildren(failure(error));
    }
    output.setAttribute("aria-busy", "false");
  }

  function show(given, readings) {
    const steps = readings[0].found.steps;
    if (state.step < 0 || state.step >= steps) state.step = steps - 1;
    const slider = element("input", { type: "range", min: "0", max: String(steps - 1), value: String(state.step), "aria-label": "Element",
      oninput: (event) => go(Number(event.target.value)) });
    const play = element("button", { type: "button", onclick: () => (timer ? stop() : start()) }, ["Play"]);
    const sentence = element("p", { class: "sentence", "aria-live": "polite" });
    const shownInput = sequence(given.value, readings[0], (step) => go(step));
    const panels = readings.map((one) => panel(one, (step) => go(step), readings.length > 1));
    function stop() { clearInterval(timer); timer = null; play.textContent = "Play"; }
    function start() {
      if (state.step === steps - 1) go(0);
      play.textContent = "Pause";
      timer = setInterval(() => (state.step < steps - 1 ? go(state.step + 1) : stop()), 450);
    }
    function go(step) {
      state.step = Math.max(0, Math.min(steps - 1, Math.round(step)));
      slider.value = String(state.step);
      slider.setAttribute("aria-valuetext", `element ${state.step + 1} of ${steps}`);
      shownInput.go(state.step);
      panels.forEach((one) => one.go(state.step));
      const own = readings[0];
      sentence.textContent = `After ${state.step + 1} of ${steps} elements: ${describe(own, state.step)}`;
      keep();
    }
    output.replaceChildren(
      element("section", { class: "card" }, [
        element("h2", {}, [given.target === undefined ? "The sequence" : `The sequence (target: ${given.target ?? "not among the classes"})`]),
        shownInput.node,
        element("div", { class: "player" }, [
          element("button", { type: "button", "aria-label": "Back", onclick: () => go(state.step - 1) }, ["◀"]),
          slider,
          element("button", { type: "button", "aria-label": "Forward", onclick: () => go(state.step + 1) }, ["▶"]),
          play,
        ]),
        sentence,
      ]),
      element("div", { class: readings.length > 1 ? "columns" : "" }, panels.map((one) => one.node)),
    );
    go(state.step);
  }

  await showControls();
  await read();
  return () => clearInterval(timer);
}

const names = (model, found) => (model.class_names.length ? model.class_names : found.mean[0].map((_, place) => `output ${place}`));

function describe({ model, found }, step) {
  const mean = found.mean[step];
  if (model.task !== "classification") return `${mean.map((value) => number(value, 3)).join(", ")}, variance ${number(found.total[step][0], 3)}.`;
  const best = mean.indexOf(Math.max(...mean));
  return `${names(model, found)[best]} with probability ${number(mean[best])}, uncertainty ${number(found.total[step])} bits ` +
    `(${number(found.aleatoric[step])} aleatoric, ${number(found.epistemic[step])} epistemic).`;
}

const one = (value) => (Array.isArray(value) ? value[0] : value);

// What an element contributed: bits of epistemic uncertainty in exact mode, else by how much it changed the uncertainty.
function heat(found) {
  if (found.attribution) return { values: found.attribution, text: "Heat: epistemic uncertainty, in bits, that the element contributes to that at the end." };
  const total = found.total.map(one);
  const values = total.map((value, step) => (step ? Math.abs(value - total[step - 1]) : 0));
  return { values, text: "Heat: by how much the element changed the total uncertainty." };
}

function sequence(value, { model, found }, go) {
  const { values, text } = heat(found);
  const largest = Math.max(...values, 1e-9);
  const level = (step) => Math.round((9 * Math.max(0, values[step])) / largest);
  let parts;
  let body;
  if (typeof value === "string" || model.reads === "token ids") {
    const words = typeof value !== "string" ? value.map(String) : model.reads === "strings" ? ["^", ...value] : value.match(/\S+/g) || [];
    parts = found.mean.map((_, step) => element("button", { type: "button", class: `word heat${level(step)}`,
      title: `${number(values[step], 3)}`, onclick: () => go(step) }, [words[step] ?? "…"]));
    body = element("div", { class: "words" }, parts);
  } else {
    const flat = value.flat().filter((v) => v !== null);
    const [low, high] = [Math.min(...flat), Math.max(...flat)];
    const shade = (v) => (v === null ? 0 : (v - low) / (high - low || 1));
    const [steps, width] = [value.length, value[0].length];
    parts = value.map((row, step) => svg("g", { class: "column" }, [
      ...row.map((v, place) => svg("rect", { x: step, y: place, width: 1, height: 1, class: "cell", "fill-opacity": shade(v).toFixed(3) })),
      svg("rect", { x: step, y: width + 0.25, width: 1, height: 0.75, class: `heat${level(step)}` }),
      svg("rect", { x: step, y: 0, width: 1, height: width + 1, class: "cover" }),
    ]));
    parts.forEach((part, step) => part.addEventListener("click", () => go(step)));
    body = svg("svg", { viewBox: `-0.1 -0.1 ${steps + 0.2} ${width + 1.2}`, class: "grid", role: "img",
      preserveAspectRatio: steps / width > 6 ? "none" : "xMinYMin meet",
      "aria-label": `${steps} steps from left to right, ${width} features from top to bottom, from ${number(low)} to ${number(high)}` }, parts);
    if (steps / width <= 6) body.style.width = `${Math.min(34, 1.8 * steps)}rem`;
  }
  return {
    node: element("div", {}, [body, element("p", { class: "note" }, [text])]),
    go: (step) => parts.forEach((part, place) => {
      part.classList.toggle("now", place === step);
      part.classList.toggle("later", place > step);
      if (part.tagName === "BUTTON") part.setAttribute("aria-current", place === step ? "step" : "false");
    }),
  };
}

function panel({ model, found }, go, titled) {
  const isClassifier = model.task === "classification";
  const x = found.mean.map((_, step) => step + 1);
  const uncertainty = chart({
    label: `Total, aleatoric and epistemic uncertainty after each element, ${model.name}`, x, xLabel: "elements read",
    yLabel: isClassifier ? "bits" : "variance", range: (plot, low, high) => [0, Math.max(high * 1.05, 0.01)],
    series: ["total", "aleatoric", "epistemic"].map((name) => ({ label: name, color: name, values: found[name].map(one), dash: name === "aleatoric" })),
    onpick: (value) => go(value - 1),
  });
  const bars = element("dl", { class: "classes" });
  const labels = names(model, found);
  const shown = labels.map((_, place) => place).sort((a, b) =>
    Math.max(...found.mean.map((row) => row[b])) - Math.max(...found.mean.map((row) => row[a]))).slice(0, 10).sort((a, b) => a - b);
  const meters = shown.map((place) => {
    const bar = svg("rect", { x: 0, y: 0, height: 10, width: 0, class: "bar" });
    const text = element("dd", {});
    bars.append(element("div", {}, [element("dt", {}, [labels[place]]),
      svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, [svg("rect", { width: 100, height: 10, class: "back" }), bar]), text]));
    return (step) => {
      const value = found.mean[step][place];
      bar.setAttribute("width", isClassifier ? 100 * value : 0);
      text.textContent = isClassifier ? percent(value) : number(value, 3);
    };
  });
  const states = found.states ? stateGrid(found.states) : null;
  const node = element("section", { class: "card panel" }, [
    element("h2", {}, [titled ? model.name : "After this element"]),
    element("div", { class: "split" }, [
      element("div", {}, [element("h3", {}, [isClassifier ? "Probabilities" : "Predicted values"]), bars,
        states && element("h3", {}, [`States (${found.states[0].length})`]), states && states.node]),
      element("div", {}, [element("h3", {}, ["Uncertainty"]), uncertainty.figure]),
    ]),
  ]);
  return { node, go: (step) => { meters.forEach((set) => set(step)); uncertainty.mark(step + 1); states?.go(step); } };
}

function stateGrid(rows) {
  const [steps, count] = [rows.length, rows[0].length];
  const largest = Math.max(...rows.flat(), 1e-9);
  const cover = svg("rect", { x: 0, y: 0, width: 1, height: count, class: "current" });
  const text = element("p", { class: "note" });
  const cells = rows.flatMap((row, step) => row.map((share, state) =>
    svg("rect", { x: step, y: state, width: 1, height: 1, class: "cell state", "fill-opacity": (share / largest).toFixed(3) })));
  const drawing = svg("svg", { viewBox: `0 0 ${steps} ${count}`, class: "grid states", role: "img", preserveAspectRatio: "none",
    "aria-label": `Share of each of ${count} states after each of ${steps} elements` }, [...cells, cover]);
  const values = element("details", {}, [element("summary", {}, ["Values as a table"]),
    table(["element", ...rows[0].map((_, state) => `state ${state}`)], rows.slice(0, 500).map((row, step) => [step + 1, ...row.map((v) => number(v))]), "States")]);
  return {
    node: element("div", {}, [drawing, text, values]),
    go: (step) => {
      cover.setAttribute("x", step);
      const best = rows[step].map((share, state) => [share, state]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([share]) => share > 0.01);
      text.textContent = `Now: ${best.map(([share, state]) => `state ${state} (${percent(share, 0)})`).join(", ")}`;
    },
  };
}
