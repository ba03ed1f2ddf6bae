// The call graph: one node per function, one edge per call, each with the value that flows through it. As in pprof,
// small nodes and edges are left out; calls through a function that was left out are merged into one edge, marked as
// indirect. Pure functions.
import type { Stacks } from "../answers.ts";
import { type FunctionRow, functionTable, nameNumbers, type SelectedStack, sumStacks, weight } from "./stacks.ts";

export interface Edge {
  from: string;
  to: string;
  value: number;
  base: number;
  indirect: boolean; // functions between the two are left out
}

export interface GraphLimits {
  nodes: number; // functions with less than this share of the total are left out
  edges: number; // the same for calls
  maxNodes: number; // maximum number of functions, the largest
}

export interface Graph {
  nodes: FunctionRow[]; // the largest first
  edges: Edge[];
  total: number; // base of percentages
  omittedNodes: number; // number of nodes left out
  omittedEdges: number;
}

/** A recursive function has no edge to itself. Each stack counts once per edge. */
function graphEdges(stacks: Stacks, all: SelectedStack[], names: Set<string>): Edge[] {
  const numbers = nameNumbers(stacks);
  const isKept: boolean[] = []; // by the number of the name
  for (const [index, frame] of stacks.frames.entries()) isKept[numbers[index]!] = names.has(frame.n);
  const edges = new Map<number, { edge: Edge; seen: number }>(); // by both numbers; seen: the last line that contains it
  all.forEach((line, index) => {
    let from = -1; // a frame
    let skipped = false;
    for (const to of line.frames) {
      const number = numbers[to]!;
      if (!isKept[number]) {
        skipped = true;
        continue;
      }
      if (from >= 0 && numbers[from] !== number) {
        const key = numbers[from]! * isKept.length + number;
        let found = edges.get(key);
        if (!found) {
          found = {
            edge: { from: stacks.frames[from]!.n, to: stacks.frames[to]!.n, value: 0, base: 0, indirect: false },
            seen: -1,
          };
          edges.set(key, found);
        }
        if (found.seen !== index) {
          found.seen = index;
          found.edge.value += line.value;
          found.edge.base += line.base;
          found.edge.indirect ||= skipped;
        }
      }
      from = to;
      skipped = false;
    }
  });
  return [...edges.values()].map((found) => found.edge);
}

export function callGraph(stacks: Stacks, all: SelectedStack[], limits: GraphLimits): Graph {
  const sum = sumStacks(all);
  const whole = weight(sum.value, sum.base);
  const rows = functionTable(stacks, all)
    .map((row) => ({ row, size: weight(row.cum, row.cumBase) }))
    .sort((a, b) => b.size - a.size || (a.row.name < b.row.name ? -1 : 1));
  const nodes = rows
    .filter((one, place) => place < limits.maxNodes && one.size > 0 && one.size >= limits.nodes * whole)
    .map((one) => one.row);
  const edges = graphEdges(stacks, all, new Set(nodes.map((node) => node.name)));
  const shownEdges = edges.filter(
    (edge) => weight(edge.value, edge.base) > 0 && weight(edge.value, edge.base) >= limits.edges * whole,
  );
  return {
    nodes,
    edges: shownEdges,
    total: whole,
    omittedNodes: rows.length - nodes.length,
    omittedEdges: edges.length - shownEdges.length,
  };
}

/** The heaviest edge into or out of a function, or null. */
export function heaviest(edges: Edge[], name: string, direction: "in" | "out"): Edge | null {
  let most: Edge | null = null;
  for (const edge of edges) {
    if ((direction === "in" ? edge.to : edge.from) !== name) continue;
    if (!most || weight(edge.value, edge.base) > weight(most.value, most.base)) most = edge;
  }
  return most;
}

/** A regular expression that matches exactly this name. */
export function exactPattern(name: string): string {
  return `^${name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}$`;
}
