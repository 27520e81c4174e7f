// How sure is sure: reliability, abstention, conformal sets and OOD detection on labeled data.
import { histogram, reliability } from "./bars.js";
import { chart } from "./chart.js";
import { element, failure, keepState, number, percent, select, send, table } from "./dom.js";

export const title = "How sure is sure";

export async function render(root, models, values) {
  const state = { model: values.model, class: values.class ?? "", threshold: values.threshold ?? "" };
  const able = models.filter((one) => one.has_examples || one.reads_files);
  if (!able.length) {
    root.append(element("p", {}, ["None of these models knows the columns of its training data, so no file can be evaluated."]));
    return null;
  }
  if (!able.some((one) => one.name === state.model)) state.model = (able.find((one) => one.has_examples) || able[0]).name;
  const model = () => able.find((one) => one.name === state.model);
  const controls = element("div", { class: "controls card" });
  const output = element("div", { "aria-busy": "false" });
  let latest = 0;
  const keep = () => keepState("sure", state);
  root.append(element("p", { class: "lead" }, ["A model is calibrated if predictions with 90 % confidence are right in 90 % of all cases. Check it on labeled data."]),
    controls, output);

  async function load(file) {
    latest += 1;
    const own = latest;
    keep();
    output.setAttribute("aria-busy", "true");
    output.replaceChildren(element("p", {}, ["Evaluating …"]));
    try {
      const query = `/api/evaluate?model=${encodeURIComponent(state.model)}`;
      if (!file && !model().has_examples) throw new Error("This model has no examples. Choose a labeled file.");
      const found = await send(file ? `${query}&name=${encodeURIComponent(file.name)}` : query, file ? await file.arrayBuffer() : "");
      if (own !== latest) return;
      show(found);
    } catch (error) {
      output.replaceChildren(failure(error));
    }
    output.setAttribute("aria-busy", "false");
  }

  function showControls() {
    const file = element("input", { type: "file", accept: ".csv,.tsv,.jsonl,.txt", onchange: () => file.files[0] && load(file.files[0]) });
    controls.replaceChildren(
      select("Model", able.map((one) => [one.name, one.name]), state.model, (value) => { state.model = value; state.class = state.threshold = ""; load(); }),
      element("label", { class: "field" }, [element("span", {}, ["Labeled file instead of the examples"]), file]),
    );
  }

  function show(found) {
    const parts = [element("section", { class: "card" }, [element("h2", {}, [`${found.count} labeled sequences`]),
      table(found.metrics.header, found.metrics.rows, "Metrics")])];
    const isClassifier = Boolean(found.reliability);
    if (isClassifier) parts.push(reliabilityCard(found));
    parts.push(abstentionCard(found, isClassifier));
    if (found.sets?.length) parts.push(setsCard(found.sets));
    if (found.entropies) parts.push(oodCard(found));
    if (found.classes.rows.length) parts.push(element("section", { class: "card" }, [element("h2", {}, ["Every class"]), table(found.classes.header, found.classes.rows, "Classes")]));
    output.replaceChildren(...parts);
  }

  function reliabilityCard(found) {
    const place = element("div", {});
    const draw = () => {
      const curve = state.class === "" ? found.reliability : found.per_class[Number(state.class)];
      const label = state.class === "" ? "all predictions" : `predictions of ${curve.name}`;
      place.replaceChildren(curve.count.length ? reliability(curve, `Accuracy against confidence, ${label}`) : element("p", {}, ["No such predictions."]));
    };
    const choice = select("Predictions", [["", "all"], ...found.per_class.map((one, number) => [number, one.name])], state.class,
      (value) => { state.class = value; draw(); keep(); });
    draw();
    return element("section", { class: "card" }, [element("h2", {}, ["Reliability"]), choice, place,
      element("p", { class: "note" }, ["Bars: accuracy; line on a bar: mean confidence; number: predictions; pale: fewer than 10. On the diagonal, confidence is right."])]);
  }

  function abstentionCard(found, isClassifier) {
    const { coverage, risk, threshold } = found.risk_coverage;
    const error = isClassifier ? (value) => percent(value) : (value) => number(value, 4);
    let place = state.threshold !== "" ? nearest(threshold, Number(state.threshold))
      : found.abstention === null ? threshold.length - 1 : nearest(threshold, found.abstention);
    const text = element("p", { class: "sentence", "aria-live": "polite" });
    const slider = element("input", { type: "range", min: "0", max: String(threshold.length - 1), value: String(place), "aria-label": "Abstention threshold",
      oninput: () => set(Number(slider.value)) });
    const curve = chart({ label: "Error of accepted predictions against the share that is accepted", x: coverage.map((v) => 100 * v), xLabel: "accepted, %",
      yLabel: isClassifier ? "error, %" : "squared error", series: [{ label: "error of accepted predictions", color: "total", values: risk.map((v) => (isClassifier ? 100 * v : v)) }],
      range: (plot, low, high) => [0, Math.max(high * 1.05, isClassifier ? 1 : 0)], onpick: (value) => set(nearest(coverage, value / 100)) });
    function set(next) {
      place = next;
      slider.value = String(next);
      slider.setAttribute("aria-valuetext", `uncertainty at most ${number(threshold[next], 3)}`);
      curve.mark(100 * coverage[next]);
      text.textContent = `Accept uncertainty up to ${number(threshold[next], 3)}: ${percent(coverage[next])} accepted, error ${error(risk[next])}.`;
      state.threshold = String(Number(threshold[next].toFixed(5)));
      keep();
    }
    set(place);
    return element("section", { class: "card" }, [element("h2", {}, ["Abstention"]), curve.figure,
      element("label", { class: "field wide" }, [element("span", {}, ["Threshold"]), slider]), text,
      element("p", { class: "note" }, [found.abstention === null ? "The model has no threshold of its own." : `The model's own threshold is ${number(found.abstention, 3)}.`])]);
  }

  showControls();
  await load();
  return null;
}

const nearest = (values, wanted) => values.reduce((best, value, place) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? place : best), 0);

function setsCard(sets) {
  const curve = chart({ label: "Mean size of conformal sets against their level", x: sets.map((one) => 100 * one.level), xLabel: "level, %", yLabel: "classes per set",
    series: [{ label: "mean size", color: "total", values: sets.map((one) => one.size) }], range: (plot, low, high) => [0, high * 1.05] });
  return element("section", { class: "card" }, [element("h2", {}, ["Conformal sets"]), curve.figure,
    table(["level", "mean size", "holds the truth"], sets.map((one) => [percent(one.level, 0), number(one.size), percent(one.coverage)]), "Conformal sets")]);
}

function oodCard(found) {
  const groups = [{ label: "known target", color: "total", values: found.entropies.in_distribution }];
  if (found.entropies.unknown.length) groups.push({ label: "target not among the classes", color: "epistemic", values: found.entropies.unknown });
  const beyond = groups.map((group) => `${percent(group.values.filter((value) => value > found.ood_threshold).length / group.values.length, 0)} of “${group.label}”`);
  return element("section", { class: "card" }, [element("h2", {}, ["Out-of-distribution detection"]),
    histogram(groups, found.ood_threshold, "total uncertainty (bits)", "Histogram of the total uncertainty"),
    element("p", { class: "sentence" }, [found.ood_threshold === null ? "The model has no OOD threshold." : `Beyond the threshold of ${number(found.ood_threshold)} bits: ${beyond.join(", ")}.`])]);
}
