// Positions of the boxes and edges of a call graph: dagre arranges them in ranks, with callers above.
import { Graph as DagreGraph, layout as dagre } from "@dagrejs/dagre";
import type { Edge, Graph } from "../model/graph.ts";
import { weight } from "../model/stacks.ts";

const MAX_LINE_LENGTH = 34; // per line of a box
const MAX_LINES = 3; // maximum per name

export interface Box {
  name: string;
  lines: string[]; // of the name
  fontSize: number; // px
  x: number; // centre
  y: number;
  width: number;
  height: number;
}

export interface EdgePath {
  edge: Edge;
  points: { x: number; y: number }[];
  label: { x: number; y: number };
}

export interface GraphLayout {
  width: number;
  height: number;
  boxes: Box[];
  edges: EdgePath[];
}

/** Splits a name into lines, behind :: , ( < or a space if possible. */
export function wrapName(name: string): string[] {
  const lines: string[] = [];
  let rest = name;
  while (rest.length > MAX_LINE_LENGTH && lines.length < MAX_LINES - 1) {
    const piece = rest.slice(0, MAX_LINE_LENGTH);
    const at = Math.max(...[":", ",", "<", "(", " ", "/", "."].map((sign) => piece.lastIndexOf(sign))) + 1;
    const cut = at > MAX_LINE_LENGTH / 3 ? at : MAX_LINE_LENGTH;
    lines.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  lines.push(rest.length > MAX_LINE_LENGTH ? rest.slice(0, MAX_LINE_LENGTH - 1) + "…" : rest);
  return lines;
}

/** The font size of a box, in four steps, so that small changes of a live profile do not change the layout. */
export function fontSizeFor(share: number): number {
  return 11 + 3 * Math.min(3, Math.floor(4 * Math.sqrt(Math.max(0, share))));
}

/** The input of a layout: the picture is reused while it stays the same. */
export function layoutKey(graph: Graph): string {
  const boxes = graph.nodes.map(
    (node) => `${node.name}\t${fontSizeFor(weight(node.cum, node.cumBase) / Math.max(1, graph.total))}`,
  );
  return [...boxes.sort(), ...graph.edges.map((edge) => `${edge.from}\t→${edge.to}`).sort()].join("\n");
}

export function layout(graph: Graph): GraphLayout {
  const dagreGraph = new DagreGraph({ multigraph: false });
  dagreGraph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 42, edgesep: 10, marginx: 8, marginy: 8 });
  dagreGraph.setDefaultEdgeLabel(() => ({}));
  const boxes = new Map<string, Box>();
  const ids = new Map<string, string>();
  for (const node of graph.nodes) {
    const fontSize = fontSizeFor(weight(node.cum, node.cumBase) / Math.max(1, graph.total));
    const lines = wrapName(node.name);
    const letters = Math.max(17, ...lines.map((line) => line.length)); // "of 1023 MiB 100 %"
    const box = {
      name: node.name,
      lines,
      fontSize,
      x: 0,
      y: 0,
      width: letters * fontSize * 0.61 + 14,
      height: (lines.length + 2) * fontSize * 1.25 + 10,
    };
    // dagre keeps nodes in plain objects, in which some function names have a special meaning ("__proto__").
    ids.set(node.name, `n${boxes.size}`);
    boxes.set(node.name, box);
    dagreGraph.setNode(ids.get(node.name)!, { width: box.width, height: box.height });
  }
  for (const edge of graph.edges) {
    const share = weight(edge.value, edge.base) / Math.max(1, graph.total);
    dagreGraph.setEdge(ids.get(edge.from)!, ids.get(edge.to)!, {
      width: 70,
      height: 14,
      labelpos: "c",
      weight: 1 + Math.floor(share * 20),
    });
  }
  dagre(dagreGraph);
  for (const [name, box] of boxes) {
    const { x, y } = dagreGraph.node(ids.get(name)!) as { x: number; y: number };
    Object.assign(box, { x, y });
  }
  const ways = graph.edges.map((edge) => {
    const { points, x, y } = dagreGraph.edge(ids.get(edge.from)!, ids.get(edge.to)!) as {
      points: { x: number; y: number }[];
      x: number;
      y: number;
    };
    return { edge, points, label: { x, y } };
  });
  const { width, height } = dagreGraph.graph() as { width: number; height: number };
  return { width: Math.max(1, width || 0), height: Math.max(1, height || 0), boxes: [...boxes.values()], edges: ways };
}

/** The points as a smooth SVG path. */
export function svgPath(points: { x: number; y: number }[]): string {
  const at = (point: { x: number; y: number }) => `${point.x.toFixed(1)},${point.y.toFixed(1)}`;
  const last = points[points.length - 1];
  if (!points[0] || !last) return "";
  let path = `M${at(points[0])}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [here, next] = [points[i]!, points[i + 1]!];
    const end = i === points.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += ` Q${at(here)} ${at(end)}`;
  }
  return points.length === 2 ? `${path} L${at(last)}` : path;
}
