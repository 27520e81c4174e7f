// Bars and histograms as SVG.
import { element, svg, table } from "./dom.js";

const WIDTH = 420;
const HEIGHT = 240;
const LEFT = 46;
const BOTTOM = 40;

function frame(label, xLabel, yLabel, xTicks, yTicks, children) {
  const right = WIDTH - 8;
  const top = 10;
  const x = (value) => LEFT + value * (right - LEFT);
  const y = (value) => HEIGHT - BOTTOM - value * (HEIGHT - BOTTOM - top);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: "bars" }, [
    ...yTicks.flatMap(([at, text]) => [
      svg("line", { x1: LEFT, x2: right, y1: y(at), y2: y(at), class: "grid" }),
      svg("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, [text]),
    ]),
    ...xTicks.map(([at, text]) => svg("text", { x: x(at), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, [text])),
    svg("text", { x: (LEFT + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, [xLabel]),
    svg("text", { x: 12, y: (HEIGHT - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(HEIGHT - BOTTOM) / 2})` }, [yLabel]),
    ...children(x, y),
  ]);
}

const tenths = [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) => [value, value.toFixed(1)]);

export function reliability(curve, label) {
  const bins = curve.count.length;
  const drawing = frame(label, "confidence", "accuracy", tenths, tenths, (x, y) => [
    svg("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "diagonal" }),
    ...curve.count.flatMap((count, bin) => {
      if (!count) return [];
      const [low, high] = [(bin + 0.06) / bins, (bin + 0.94) / bins];
      return [
        svg("rect", { x: x(low), width: x(high) - x(low), y: y(curve.accuracy[bin]), height: y(0) - y(curve.accuracy[bin]),
          class: count < 10 ? "bar pale" : "bar" }),
        svg("line", { x1: x(low), x2: x(high), y1: y(curve.confidence[bin]), y2: y(curve.confidence[bin]), class: "confidence" }),
        svg("text", { x: x((low + high) / 2), y: Math.max(y(curve.accuracy[bin]), 22) - 5, "text-anchor": "middle", class: "small" }, [String(count)]),
      ];
    }),
  ]);
  const rows = curve.count.map((count, bin) => [`${bin / bins} to ${(bin + 1) / bins}`, count,
    count ? curve.confidence[bin].toFixed(3) : "", count ? curve.accuracy[bin].toFixed(3) : ""]);
  return withTable(drawing, ["confidence", "predictions", "mean confidence", "accuracy"], rows, label);
}

export function histogram(groups, threshold, xLabel, label) {
  const largest = Math.max(threshold ?? 0, ...groups.flatMap((group) => group.values), 1e-9);
  const bins = 24;
  const shares = groups.map((group) => {
    const counts = Array(bins).fill(0);
    for (const value of group.values) counts[Math.min(bins - 1, Math.floor((value / largest) * bins))] += 1 / group.values.length;
    return counts;
  });
  const highest = Math.max(...shares.flat(), 1e-9);
  const drawing = frame(label, xLabel, "share of sequences",
    [0, 0.25, 0.5, 0.75, 1].map((at) => [at, (at * largest).toFixed(2)]),
    [0, 0.5, 1].map((at) => [at, `${(100 * at * highest).toFixed(0)} %`]), (x, y) => [
      ...shares.flatMap((counts, group) => counts.map((share, bin) => svg("rect", {
        x: x(bin / bins) + 1, width: x(1 / bins) - x(0) - 2, y: y(share / highest), height: y(0) - y(share / highest),
        class: `group ${groups[group].color}` }))),
      threshold === null ? null : svg("line", { x1: x(threshold / largest), x2: x(threshold / largest), y1: y(1), y2: y(0), class: "mark" }),
    ].filter(Boolean));
  const rows = shares[0].map((_, bin) => [((bin * largest) / bins).toFixed(3), ...shares.map((counts) => `${(100 * counts[bin]).toFixed(1)} %`)]);
  const legend = element("ul", { class: "legend" }, groups.map((group) =>
    element("li", {}, [element("span", { class: `line ${group.color}` }), `${group.label} (${group.values.length})`])));
  return element("div", {}, [legend, withTable(drawing, ["from", ...groups.map((group) => group.label)], rows, label)]);
}

function withTable(drawing, header, rows, label) {
  return element("figure", { class: "chart" }, [drawing,
    element("details", {}, [element("summary", {}, ["Values as a table"]), table(header, rows, label)])]);
}
