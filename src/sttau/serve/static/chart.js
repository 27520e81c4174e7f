// Line charts with uPlot, with a description and a table for screen readers.
import uPlot from "./vendor/uPlot.esm.js";
import { color, element, number, table } from "./dom.js";

export function chart({ label, x, xLabel, series, yLabel, range, mark, height = 220, onpick }) {
  const place = element("div", { class: "plot", role: "img", "aria-label": label });
  const figure = element("figure", { class: "chart" }, [
    place,
    element("ul", { class: "legend" }, series.map((one) =>
      element("li", {}, [element("span", { class: `line ${one.color}${one.dash ? " dash" : ""}` }), one.label]))),
    element("details", {}, [
      element("summary", {}, ["Values as a table"]),
      table([xLabel, ...series.map((one) => one.label)], x.map((value, row) => [value, ...series.map((one) => one.values[row])]), label,
        (value) => (typeof value === "number" && !Number.isInteger(value) ? number(value, 4) : value)),
    ]),
  ]);
  let made = null;
  let marked = mark;

  const axis = (text) => ({
    stroke: color("muted"), label: text, labelSize: 16, labelGap: 0, size: 34, labelFont: "12px system-ui", font: "12px system-ui",
    grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 },
  });

  function draw() {
    if (!place.isConnected || !place.clientWidth) return;
    made?.destroy();
    const options = {
      width: place.clientWidth, height, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false }, y: range ? { range } : {} },
      axes: [axis(xLabel), { ...axis(yLabel), size: 56 }],
      series: [{}, ...series.map((one) => ({
        stroke: color(one.color), width: 2, dash: one.dash ? [6, 4] : undefined, points: { show: x.length < 60, size: 5 },
      }))],
      hooks: {
        draw: [(plot) => {
          if (marked === null || marked === undefined) return;
          const at = plot.valToPos(marked, "x", true);
          const { ctx, bbox } = plot;
          ctx.save();
          ctx.strokeStyle = color("mark");
          ctx.lineWidth = 2 * devicePixelRatio;
          ctx.beginPath();
          ctx.moveTo(at, bbox.top);
          ctx.lineTo(at, bbox.top + bbox.height);
          ctx.stroke();
          ctx.restore();
        }],
      },
    };
    made = new uPlot(options, [x, ...series.map((one) => one.values)], place);
    if (onpick) {
      const pick = (event) => {
        const box = made.over.getBoundingClientRect();
        onpick(made.posToVal(event.clientX - box.left, "x"));
      };
      made.over.addEventListener("pointerdown", pick);
      made.over.addEventListener("pointermove", (event) => event.buttons === 1 && pick(event));
    }
  }

  new ResizeObserver(() => (made ? made.setSize({ width: place.clientWidth, height }) : draw())).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { figure, mark: (value) => { marked = value; made?.redraw(false); } };
}
