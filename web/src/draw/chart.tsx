// A chart over time: lines or stacked areas, drawn by uPlot. The legend shows the values under the pointer.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { timeTicks } from "../model/format.ts";
import { queueFrame } from "./framequeue.ts";
import { SavePicture } from "./picture.tsx";
import { snapshot } from "./snapshot.ts";

export interface Line {
  label: string;
  values: (number | null)[]; // null: the line breaks here
  colour: string;
}

interface Props {
  title: string;
  caption?: preact.ComponentChildren; // the title, with its explanation
  seconds: number[]; // since 1970
  lines: Line[];
  stacked?: boolean;
  format: (value: number) => string;
  bytes?: boolean; // ticks at powers of two
  height?: number;
  onZoom?: (span: { from: number; to: number } | null) => void; // s since 1970; null: not zoomed any more
}

const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

// Steps for counts, which have no fractions.
const WHOLE = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat();

/** Each line plus the lines below it. */
function stackLines(lines: Line[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  for (const line of lines) {
    const below = sums[sums.length - 1];
    sums.push(line.values.map((value, i) => (value === null ? null : value + (below?.[i] ?? 0))));
  }
  return sums;
}

function options(props: Props, width: number): uPlot.Options {
  const { lines, stacked, format } = props;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ink = dark ? "#c9c9c9" : "#444";
  const order = stacked ? [...lines].reverse() : lines;
  return {
    width,
    height: props.height ?? 220,
    cursor: { drag: { x: true, y: false } },
    hooks: { setScale: [(chart, scale) => scale === "x" && props.onZoom?.(zoomRange(chart))] },
    axes: [
      {
        stroke: ink,
        grid: { stroke: dark ? "#333" : "#eee" },
        space: 70,
        values: (_, ticks, __, ___, step) => timeTicks(ticks, step),
      },
      {
        stroke: ink,
        grid: { stroke: dark ? "#333" : "#eee" },
        size: 76,
        values: (_, ticks) => ticks.map(format),
        incrs: props.bytes ? POWERS : WHOLE,
      },
    ],
    scales: { y: { range: (_, least, most) => [Math.min(0, least), Math.max(most, 1) * 1.05] } },
    series: [
      { label: "time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
      ...order.map((line) => ({
        label: line.label,
        stroke: line.colour,
        width: stacked ? 1 : 1.5,
        ...(stacked ? { fill: line.colour } : {}),
        points: { show: false },
        // In a stack the legend shows the line's own value.
        value: (_: uPlot, __: number, ___: number, index: number | null) => {
          const value = line.values[index ?? line.values.length - 1];
          return value == null ? "–" : format(value);
        },
      })),
    ],
  };
}

/** The visible time range, unless that is everything. */
function zoomRange(chart: uPlot): { from: number; to: number } | null {
  const seconds = chart.data[0];
  const { min, max } = chart.scales.x!;
  return min != null && max != null && (min > seconds[0]! || max < seconds[seconds.length - 1]!)
    ? { from: min, to: max }
    : null;
}

function data(props: Props): uPlot.AlignedData {
  const values = props.stacked ? stackLines(props.lines).reverse() : props.lines.map((line) => line.values);
  return [props.seconds, ...values];
}

export function Chart(props: Props) {
  const container = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = container.current!;
    const make = () => {
      chart.current?.destroy();
      chart.current = new uPlot(options(latest.current, element.clientWidth), data(latest.current), element);
    };
    let cancel = () => {};
    const observer = new ResizeObserver(() => {
      cancel();
      if (chart.current?.width !== element.clientWidth) cancel = queueFrame(make);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      cancel();
      chart.current?.destroy();
      chart.current = null;
    };
  }, []);
  // The charts of a page are drawn one after the other: all at once, with 6,000 points each, they would block the page.
  useEffect(() =>
    queueFrame(() => {
      // The legend's functions refer to the lines, so they are replaced together with them.
      const plot = chart.current;
      if (!plot) return;
      for (const [i, series] of options(props, plot.width).series.entries())
        if (i > 0) Object.assign(plot.series[i]!, { value: series.value });
      const zoomed = zoomRange(plot) !== null;
      plot.setData(data(props), !zoomed);
      if (zoomed) plot.redraw();
    }),
  );
  const last = props.lines
    .map((line) => `${line.label} ${props.format(line.values[line.values.length - 1] ?? 0)}`)
    .join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <span>{props.caption ?? props.title}</span>{" "}
        <SavePicture
          name={`seemalloc.${props.title.toLowerCase().replace(/[^a-z]+/g, "-")}`}
          of={props.title}
          pixels
          draw={() => snapshot(container.current!.parentElement!)}
        />
      </figcaption>
      <div ref={container} role="img" aria-label={`${props.title}: now ${last}`} />
    </figure>
  );
}
