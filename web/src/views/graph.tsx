// The call graph: one box per function, sized by its value, and one edge per call. A click shows only the stacks
// through a function. The arrow keys move along the heaviest calls, Enter acts like a click, and Escape shows
// everything.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { changeColour, shareColour } from "../draw/colour.ts";
import { type Box, svgPath } from "../draw/graph.ts";
import { SavePicture } from "../draw/picture.tsx";
import { amount, percent } from "../model/format.ts";
import { type Edge, exactPattern, heaviest } from "../model/graph.ts";
import { type FunctionRow, weight } from "../model/stacks.ts";
import type { ViewProps } from "../viewprops.ts";

const STEPS = [0, 0.1, 0.5, 1, 2, 5, 10, 20];

// Of a picture that fits the window. Below, it could not be read: it is wider than the window then.
const MIN_SCALE = 0.9;
const MAX_SCALE = 1.4;

export function Graph({ about: { unit, isComparison }, data: { graph, picture }, shown, change }: ViewProps<"graph">) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [selected, setSelected] = useState("");
  const [scale, setScale] = useState(0); // 0: the width of the window
  const svg = useRef<SVGSVGElement>(null);
  const rows = useMemo(() => new Map(graph.nodes.map((node) => [node.name, node])), [graph]);
  const edges = useMemo(() => new Map(graph.edges.map((edge) => [`${edge.from}\n${edge.to}`, edge])), [graph]);
  const ink = dark ? "#e7e7e7" : "#1a1a1a";
  const paper = dark ? "#161616" : "#ffffff";
  const current = rows.has(selected) ? selected : (graph.nodes[0]?.name ?? "");

  // A picture that is wider than the window begins at the largest function.
  useEffect(() => {
    const box = picture.boxes.find((one) => one.name === current);
    const container = svg.current!.parentElement!;
    if (box) container.scrollLeft = (box.x * svg.current!.clientWidth) / picture.width - container.clientWidth / 2;
  }, [picture]);

  const shownValue = (value: number, base: number) =>
    isComparison ? amount(value - base, unit, true) : amount(value, unit);
  const figures = (node: FunctionRow) => [
    `${shownValue(node.flat, node.flatBase)}${isComparison ? "" : ` ${percent(node.flat, graph.total)}`}`,
    `of ${shownValue(node.cum, node.cumBase)}${isComparison ? "" : ` ${percent(node.cum, graph.total)}`}`,
  ];
  const describe = (node: FunctionRow) => `${node.name}: itself ${figures(node).join(" ")}`;
  const focused = (name: string) => shown.focus === exactPattern(name);
  const focus = (name: string) => {
    setSelected(name);
    change({ focus: focused(name) ? "" : exactPattern(name) });
  };
  const moveTo = (name: string | undefined) => {
    if (name === undefined) return;
    setSelected(name);
    const place = picture.boxes.findIndex((box) => box.name === name);
    svg.current?.querySelector<SVGGElement>(`[data-index="${place}"]`)?.focus();
  };
  const neighbour = (step: 1 | -1) => {
    const here = picture.boxes.find((box) => box.name === current);
    const row = picture.boxes.filter((box) => here && Math.abs(box.y - here.y) < 1).sort((a, b) => a.x - b.x);
    return row[row.indexOf(here!) + step]?.name;
  };
  const key = (event: KeyboardEvent) => {
    switch (event.key) {
      case "ArrowDown":
        moveTo(heaviest(graph.edges, current, "out")?.to);
        break;
      case "ArrowUp":
        moveTo(heaviest(graph.edges, current, "in")?.from);
        break;
      case "ArrowLeft":
        moveTo(neighbour(-1));
        break;
      case "ArrowRight":
        moveTo(neighbour(1));
        break;
      case "Enter":
      case " ":
        focus(current);
        break;
      case "Escape":
        change({ focus: "" });
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  const draw = () => {
    const [width, height] = [Math.ceil(picture.width), Math.ceil(picture.height)];
    const copy = svg.current!.cloneNode(true) as SVGSVGElement;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", String(width));
    copy.setAttribute("height", String(height));
    copy.removeAttribute("style");
    return { svg: new XMLSerializer().serializeToString(copy), width, height };
  };
  const share = (name: "nodes" | "edges", text: string, help: string) => (
    <label title={help}>
      {text}{" "}
      <select value={shown[name]} onChange={(event) => change({ [name]: Number(event.currentTarget.value) })}>
        {[...new Set([...STEPS, shown[name]])]
          .sort((a, b) => a - b)
          .map((step) => (
            <option key={step} value={step}>
              {step} %
            </option>
          ))}
      </select>
    </label>
  );
  const detailRow = rows.get(current);
  return (
    <section>
      <div class="bar">
        {share("nodes", "functions from", "Functions with less than this share of the total are left out")}
        {share("edges", "calls from", "Calls with less than this share of the total are left out")}
        <label title="The largest functions, as many as this">
          at most{" "}
          <select value={shown.most} onChange={(event) => change({ most: Number(event.currentTarget.value) })}>
            {[...new Set([20, 40, 80, 160, shown.most])]
              .sort((a, b) => a - b)
              .map((most) => (
                <option key={most} value={most}>
                  {most}
                </option>
              ))}
          </select>
        </label>
        <label>
          size{" "}
          <select value={scale} onChange={(event) => setScale(Number(event.currentTarget.value))}>
            <option value={0}>fits</option>
            {[0.5, 0.75, 1, 1.5, 2].map((step) => (
              <option key={step} value={step}>
                {step * 100} %
              </option>
            ))}
          </select>
        </label>
        <button disabled={!shown.focus} onClick={() => change({ focus: "" })}>
          all functions
        </button>
        <button disabled={!detailRow} onClick={() => change({ view: "callers", function: current })}>
          callers of it
        </button>
        <button disabled={!detailRow?.file} onClick={() => change({ view: "source", function: current })}>
          source of it
        </button>
        {picture.boxes.length > 0 && <SavePicture name="seemalloc.graph" draw={draw} />}
      </div>
      <p class="detail" aria-live="polite">
        {detailRow ? describe(detailRow) : "No function is that large: lower the limits, or clear the filters."}
      </p>
      <div class="graph">
        <svg
          ref={svg}
          role="group"
          aria-label={`Graph of ${graph.nodes.length} functions and ${graph.edges.length} calls; the table under Functions has the same figures. Arrows move along calls, Enter shows only the stacks through a function, Escape shows all.`}
          viewBox={`0 0 ${Math.ceil(picture.width)} ${Math.ceil(picture.height)}`}
          onKeyDown={key}
          font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
          style={
            scale
              ? { width: picture.width * scale, maxWidth: "none" }
              : { minWidth: picture.width * MIN_SCALE, maxWidth: picture.width * MAX_SCALE }
          }
        >
          <rect width="100%" height="100%" fill={paper} />
          {picture.edges.map((way) => {
            const edge = edges.get(`${way.edge.from}\n${way.edge.to}`) ?? way.edge;
            return (
              <EdgeArrow
                key={`${edge.from}\n${edge.to}`}
                edge={edge}
                path={svgPath(way.points)}
                points={way.points}
                label={way.label}
                text={shownValue(edge.value, edge.base)}
                share={weight(edge.value, edge.base) / Math.max(1, graph.total)}
                ink={ink}
                paper={paper}
              />
            );
          })}
          {picture.boxes.map((box, position) => {
            const node = rows.get(box.name);
            if (!node) return null;
            const fill = isComparison
              ? changeColour(node.cum, node.cumBase, dark)
              : shareColour(node.cum / Math.max(1, graph.total), dark);
            return (
              <g
                key={box.name}
                role="button"
                data-index={position}
                tabIndex={box.name === current ? 0 : -1}
                aria-label={describe(node)}
                aria-pressed={focused(box.name)}
                onClick={() => focus(box.name)}
                onFocus={() => setSelected(box.name)}
              >
                <title>{`${describe(node)}\n${node.file || node.module}`}</title>
                <rect
                  x={box.x - box.width / 2}
                  y={box.y - box.height / 2}
                  width={box.width}
                  height={box.height}
                  rx={4}
                  fill={fill}
                  stroke={ink}
                  stroke-width={box.name === current ? 3 : 1}
                />
                <Text box={box} lines={[...box.lines, ...figures(node)]} ink={ink} />
              </g>
            );
          })}
        </svg>
      </div>
      <p class="note">
        {graph.omittedNodes > 0 && `${graph.omittedNodes} functions are left out. `}
        {graph.omittedEdges > 0 && `${graph.omittedEdges} calls are left out. `}
        Text size and colour: the value that flows through a function (<em>of …</em>); dashed: through functions that
        are left out.
      </p>
    </section>
  );
}

function Text({ box, lines, ink }: { box: Box; lines: string[]; ink: string }) {
  const height = box.fontSize * 1.25;
  const first = box.y - ((lines.length - 1) * height) / 2 + box.fontSize * 0.35;
  return (
    <text text-anchor="middle" font-size={box.fontSize} fill={ink}>
      {lines.map((line, i) => (
        <tspan key={i} x={box.x} y={first + i * height}>
          {line}
        </tspan>
      ))}
    </text>
  );
}

interface EdgeArrowProps {
  edge: Edge;
  path: string;
  points: { x: number; y: number }[];
  label: { x: number; y: number };
  text: string;
  share: number;
  ink: string;
  paper: string;
}

function EdgeArrow({ edge, path, points, label, text, share, ink, paper }: EdgeArrowProps) {
  const end = points[points.length - 1]!;
  const before = points[points.length - 2] ?? end;
  const angle = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  const wide = 1 + 5 * Math.min(1, share);
  const head = 5 + wide;
  return (
    <g class="edge">
      <title>{`${edge.from} → ${edge.to}: ${text}${edge.indirect ? ", through functions that are left out" : ""}`}</title>
      <path
        d={path}
        fill="none"
        stroke={ink}
        stroke-width={wide}
        stroke-opacity={0.35 + 0.5 * Math.min(1, share)}
        stroke-dasharray={edge.indirect ? "6 4" : undefined}
      />
      <polygon
        points={`0,0 ${-head},${head / 2} ${-head},${-head / 2}`}
        fill={ink}
        transform={`translate(${end.x} ${end.y}) rotate(${angle})`}
      />
      <text
        x={label.x}
        y={label.y}
        font-size={12}
        fill={ink}
        text-anchor="middle"
        dominant-baseline="middle"
        stroke={paper}
        stroke-width={4}
        paint-order="stroke"
      >
        {text}
      </text>
    </g>
  );
}
