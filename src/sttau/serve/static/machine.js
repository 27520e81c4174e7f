// The machine: the automaton of a model; probability flows through it as a string is read.
import { download, element, failure, get, getText, keepState, number, percent, select, svg, table } from "./dom.js";

export const title = "The machine";

export async function render(root, models, values) {
  const able = models.filter((one) => one.automaton);
  if (!able.length) {
    root.append(element("p", {}, ["None of these models is an automaton: that takes a finite alphabet and an ST-τ GRU. " +
      "The quickstart trains one (sttau quickstart, then sttau serve quickstart/models)."]));
    return null;
  }
  const state = { model: values.model, kind: values.kind === "pa" ? "pa" : "dfa", string: values.string ?? "", step: Number(values.step ?? 0) };
  if (!able.some((one) => one.name === state.model)) state.model = able[0].name;
  let timer = null;
  const controls = element("div", { class: "controls card" });
  const output = element("div", {});
  root.append(element("p", { class: "lead" }, ["The network is this automaton. Enter a string and step through it: each state is filled by its probability."]),
    controls, output);
  const keep = () => keepState("machine", state);
  const query = (form) => `/api/automaton?model=${encodeURIComponent(state.model)}&kind=${state.kind}&form=${form}`;

  function showControls() {
    const exports = ["dot", "svg", "json"].map((form) => element("button", { type: "button", class: "quiet", onclick: async () => {
      download(`${state.model}-${state.kind}.${form}`, await getText(query(form)), "text/plain");
    } }, [`Save ${form.toUpperCase()}`]));
    controls.replaceChildren(
      select("Model", able.map((one) => [one.name, one.name]), state.model, (value) => { state.model = value; state.step = 0; load(); }),
      select("Automaton", [["dfa", "deterministic (most probable moves)"], ["pa", "probabilistic (all moves)"]], state.kind,
        (value) => { state.kind = value; load(); }),
      element("div", { class: "buttons" }, exports),
    );
  }

  async function load() {
    clearInterval(timer);
    keep();
    try {
      show(await get(query("view")));
    } catch (error) {
      output.replaceChildren(failure(error));
    }
  }

  function show(machine) {
    const allowed = new Set(machine.alphabet);
    if (!state.string) state.string = "100110".split("").every((letter) => allowed.has(letter)) ? "100110" : machine.alphabet.slice(0, 4).join("");
    const drawing = draw(machine);
    const field = element("input", { type: "text", value: state.string, spellcheck: "false", maxlength: "200",
      oninput: () => { state.string = field.value; state.step = 0; trace(); } });
    const slider = element("input", { type: "range", min: "0", "aria-label": "Symbols read", oninput: () => go(Number(slider.value)) });
    const sentence = element("p", { class: "sentence", "aria-live": "polite" });
    const path = element("p", { class: "note" });
    const tape = element("p", { class: "tape" });
    const distribution = element("div", {});
    const play = element("button", { type: "button", onclick: () => {
      if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
      if (state.step >= flow.length - 1) go(0);
      play.textContent = "Pause";
      timer = setInterval(() => {
        if (state.step < flow.length - 1) go(state.step + 1);
        else { clearInterval(timer); timer = null; play.textContent = "Play"; }
      }, 700);
    } }, ["Play"]);
    let flow = [];
    let best = [];

    function trace() {
      const letters = [...state.string];
      const bad = letters.find((letter) => !allowed.has(letter));
      if (bad !== undefined) {
        sentence.textContent = `The symbol “${bad}” is not in the alphabet: ${machine.alphabet.join(", ")}.`;
        sentence.classList.add("error");
        return;
      }
      sentence.classList.remove("error");
      flow = [machine.initial];
      best = [machine.initial.map((p, s) => ({ p, path: [s] }))];
      for (const letter of letters) {
        const matrix = machine.matrices[machine.alphabet.indexOf(letter)];
        const before = flow.at(-1);
        flow.push(before.map((_, to) => before.reduce((sum, p, from) => sum + p * matrix[from][to], 0)));
        const last = best.at(-1);
        best.push(last.map((_, to) => last.reduce((top, one, from) =>
          one.p * matrix[from][to] > top.p ? { p: one.p * matrix[from][to], path: [...one.path, to] } : top, { p: 0, path: [] })));
      }
      slider.max = String(letters.length);
      go(Math.min(state.step, letters.length));
    }

    function go(step) {
      state.step = Math.max(0, Math.min(flow.length - 1, step));
      slider.value = String(state.step);
      const letters = [...state.string];
      const now = flow[state.step];
      drawing.fill(now, state.step ? { letter: letters[state.step - 1], before: flow[state.step - 1] } : null);
      const accept = now.reduce((sum, p, s) => sum + p * machine.output[s], 0);
      sentence.textContent = `After ${state.step ? `“${letters.slice(0, state.step).join("")}”` : "nothing"}: accepted with probability ${number(accept, 3)}.`;
      const top = best[state.step].filter((one) => one.p > 0.001).sort((a, b) => b.p - a.p).slice(0, 3);
      path.textContent = `Most probable paths: ${top.map((one) => `${one.path.join(" → ")} (${percent(one.p)})`).join("; ")}`;
      tape.replaceChildren(...letters.map((letter, place) => element("span", { class: place === state.step - 1 ? "now" : place < state.step ? "read" : "" }, [letter])));
      distribution.replaceChildren(table(["state", "probability", "accepts"],
        now.map((p, s) => [s, number(p, 3), number(machine.output[s], 3)]), "Distribution of the state"));
      keep();
    }

    output.replaceChildren(
      element("section", { class: "card" }, [
        element("h2", {}, [`${machine.output.length} states, ${machine.alphabet.length} symbols`]),
        element("div", { class: "controls" }, [
          element("label", { class: "field" }, [element("span", {}, [`String over ${machine.alphabet.slice(0, 12).join(", ")}`]), field]),
        ]),
        tape,
        element("div", { class: "player" }, [
          element("button", { type: "button", "aria-label": "Back", onclick: () => go(state.step - 1) }, ["◀"]), slider,
          element("button", { type: "button", "aria-label": "Forward", onclick: () => go(state.step + 1) }, ["▶"]), play,
        ]),
        sentence, path, drawing.node,
        element("p", { class: "note" }, ["Double circles accept. Drag to move, use the buttons or + and − to zoom, arrow keys to move."]),
        element("details", {}, [element("summary", {}, ["Distribution of the state as a table"]), distribution]),
      ]),
    );
    trace();
  }

  showControls();
  await load();
  return () => clearInterval(timer);
}

function draw(machine) {
  const [x0, y0, w0, h0] = machine.box;
  const box = { x: x0, y: y0, w: w0, h: h0 };
  const arrows = machine.arrows.map((arrow) => {
    const [a, ...rest] = arrow.curve;
    const kind = rest.length === 2 ? "Q" : "C";
    const line = svg("path", { d: `M${a.join(" ")} ${kind}${rest.map((p) => p.join(" ")).join(", ")}`, class: "arrow", "marker-end": "url(#head)" });
    const height = 0.2;
    const width = 0.12 * Math.max(...arrow.label.map((text) => text.length)) + 0.06;
    const label = svg("g", { class: "label" }, [
      svg("rect", { x: arrow.at[0] - width / 2, y: arrow.at[1] - (arrow.label.length * height) / 2, width, height: arrow.label.length * height }),
      ...arrow.label.map((text, row) => svg("text", { x: arrow.at[0], y: arrow.at[1] + (row - (arrow.label.length - 1) / 2) * height + 0.06, "text-anchor": "middle" }, [text])),
    ]);
    return { ...arrow, line, label };
  });
  const circles = machine.places.map(([x, y], state) => {
    const fill = svg("circle", { cx: x, cy: y, r: machine.radius, class: "fill" });
    const node = svg("g", { class: "state" }, [
      svg("circle", { cx: x, cy: y, r: machine.radius, class: "outline" }), fill,
      machine.output[state] > 0.5 ? svg("circle", { cx: x, cy: y, r: machine.radius * 0.8, class: "inner" }) : null,
      svg("text", { x, y: y + 0.07, "text-anchor": "middle" }, [String(state)]),
    ]);
    return { fill, node };
  });
  const starts = Object.entries(machine.starts).map(([state, angle]) => {
    const [x, y] = machine.places[Number(state)];
    const [dx, dy] = [Math.cos(angle), -Math.sin(angle)];
    const [near, far] = [machine.radius, 3 * machine.radius];
    return svg("path", { d: `M${x + far * dx} ${y + far * dy} L${x + near * dx} ${y + near * dy}`, class: "arrow", "marker-end": "url(#head)" });
  });
  const view = svg("svg", { class: "machine", role: "application", tabindex: "0", "aria-label": `Automaton with ${machine.output.length} states` }, [
    svg("defs", {}, [svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 0.14, markerHeight: 0.14, orient: "auto" },
      [svg("path", { d: "M0 0L8 4L0 8z", class: "tip" })])]),
    ...arrows.map((one) => one.line), ...starts, ...arrows.map((one) => one.label), ...circles.map((one) => one.node),
  ]);
  const place = () => view.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
  const zoom = (factor) => {
    const [w, h] = [box.w * factor, box.h * factor];
    if (w < w0 / 20 || w > w0 * 5) return;
    box.x += (box.w - w) / 2;
    box.y += (box.h - h) / 2;
    Object.assign(box, { w, h });
    place();
  };
  const move = (dx, dy) => { box.x += dx * box.w; box.y += dy * box.h; place(); };
  const reset = () => { Object.assign(box, { x: x0, y: y0, w: w0, h: h0 }); place(); };
  view.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 0.87); } }, { passive: false });
  view.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
    if (act) move(...act);
    else if (event.key === "+") zoom(0.8);
    else if (event.key === "-") zoom(1.25);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
  });
  view.addEventListener("pointerdown", (event) => view.setPointerCapture(event.pointerId));
  view.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) move(-event.movementX / view.clientWidth, -event.movementY / view.clientHeight);
  });
  place();
  view.style.aspectRatio = String(w0 / h0);
  const node = element("div", {}, [element("div", { class: "buttons zoom" }, [
    element("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(0.8) }, ["+"]),
    element("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1.25) }, ["−"]),
    element("button", { type: "button", onclick: reset }, ["Whole"]),
  ]), element("div", { class: "canvas" }, [view])]);
  return {
    node,
    fill(now, step) {
      circles.forEach((one, state) => one.fill.setAttribute("fill-opacity", now[state].toFixed(3)));
      arrows.forEach((one) => {
        const flow = step ? step.before[one.from] * machine.matrices[machine.alphabet.indexOf(step.letter)][one.from][one.to] : 0;
        one.line.classList.toggle("flow", flow > 0.02);
        one.line.style.strokeOpacity = flow > 0.02 ? String(0.35 + 0.65 * flow) : "";
      });
    },
  };
}
