// From stacks to what is shown: filters, a tree of calls, a table of functions. Pure functions.
import type { Frame, Stacks } from "../api.ts";

export interface Filter {
  focus?: string; // only stacks with a function that matches; a regular expression, without regard to case
  ignore?: string; // no stacks with a function that matches
  hide?: string; // such functions are taken out of the stacks
  module?: string; // only stacks that end in this module
}

/** Whether all stacks pass. */
export function isWhole(filter: Filter): boolean {
  return !(pattern(filter.focus) || pattern(filter.ignore) || filter.module);
}

/** A stack that is left, with its value and, of a change, what it was before. */
export interface Line {
  frames: number[];
  value: number;
  base: number;
}

export function pattern(text: string | undefined): RegExp | null {
  if (!text) return null;
  try {
    return new RegExp(text, "i");
  } catch {
    return null; // half typed
  }
}

export function isPattern(text: string | undefined): boolean {
  return !text || pattern(text) !== null;
}

/** The stacks that pass, with the values of one type. */
export function lines(stacks: Stacks, type: number, filter: Filter = {}): Line[] {
  const [focus, ignore, hide] = [filter.focus, filter.ignore, filter.hide].map((text) => {
    const regexp = pattern(text);
    return regexp && stacks.frames.map((frame) => regexp.test(frame.n));
  });
  const out: Line[] = [];
  stacks.stacks.forEach((stack, index) => {
    const value = stacks.values[index]![type]!;
    const base = stacks.base?.[index]?.[type] ?? 0;
    if (value === 0 && base === 0) return;
    if (focus && !stack.some((frame) => focus[frame])) return;
    if (ignore && stack.some((frame) => ignore[frame])) return;
    if (filter.module && stacks.frames[stack[stack.length - 1]!]?.m !== filter.module) return;
    out.push({ frames: hide ? stack.filter((frame) => !hide[frame]) : stack, value, base });
  });
  return out;
}

export interface Node {
  name: string;
  frame: Frame | null; // null: the root
  self: number;
  total: number;
  weight: number; // gains and losses of the kind "since", both as what they are large
  base: number;
  depth: number;
  parent: Node | null;
  children: Node[];
}

export interface Shape {
  inverted?: boolean; // from the functions that allocate to their callers
  folded?: boolean; // direct recursion as one
}

/** The tree of calls. Functions are told apart by name; places in them are not. Children are sorted by name. */
export function tree(stacks: Stacks, all: Line[], shape: Shape = {}): Node {
  const root: Node = { name: "all", frame: null, self: 0, total: 0, weight: 0, base: 0, depth: 0, parent: null, children: [] };
  const known = new Map<Node, Map<string, Node>>();
  for (const line of all) {
    let node = root;
    root.total += line.value;
    root.weight += Math.abs(line.value);
    root.base += line.base;
    const order = shape.inverted ? [...line.frames].reverse() : line.frames;
    for (const index of order) {
      const frame = stacks.frames[index]!;
      if (shape.folded && node.name === frame.n) continue;
      let children = known.get(node);
      if (!children) known.set(node, (children = new Map()));
      let child = children.get(frame.n);
      if (!child) {
        child = { name: frame.n, frame, self: 0, total: 0, weight: 0, base: 0, depth: node.depth + 1, parent: node, children: [] };
        children.set(frame.n, child);
        node.children.push(child);
      }
      child.total += line.value;
      child.weight += Math.abs(line.value);
      child.base += line.base;
      node = child;
    }
    node.self += line.value;
  }
  const sort = (node: Node) => {
    node.children.sort((a, b) => (a.name < b.name ? -1 : 1));
    node.children.forEach(sort);
  };
  sort(root);
  return root;
}

/** The names from the root to a node, without the root's. */
export function pathOf(node: Node): string[] {
  const path: string[] = [];
  for (let at: Node | null = node; at?.parent; at = at.parent) path.unshift(at.name);
  return path;
}

/** The node that a path leads to, or the last one on the way that is there. */
export function find(root: Node, path: string[]): Node {
  let node = root;
  for (const name of path) {
    const child = node.children.find((one) => one.name === name);
    if (!child) break;
    node = child;
  }
  return node;
}

export interface Row {
  name: string;
  file: string;
  module: string;
  flat: number;
  cum: number;
  flatBase: number;
  cumBase: number;
}

/** By function: what it allocated itself (flat), and with what it called (cum). */
export function table(stacks: Stacks, all: Line[]): Row[] {
  const rows = new Map<string, Row>();
  for (const line of all) {
    const seen = new Set<string>();
    line.frames.forEach((index, place) => {
      const frame = stacks.frames[index]!;
      let row = rows.get(frame.n);
      if (!row) {
        row = { name: frame.n, file: frame.f ?? "", module: frame.m ?? "", flat: 0, cum: 0, flatBase: 0, cumBase: 0 };
        rows.set(frame.n, row);
      }
      if (place === line.frames.length - 1) {
        row.flat += line.value;
        row.flatBase += line.base;
      }
      if (!seen.has(frame.n)) {
        seen.add(frame.n);
        row.cum += line.value;
        row.cumBase += line.base;
      }
    });
  }
  return [...rows.values()];
}

/** Around one function: the stacks down to it, and those from it on (a recursive one: from its outermost call). */
export function around(stacks: Stacks, all: Line[], name: string): { callers: Line[]; callees: Line[] } {
  const callers: Line[] = [];
  const callees: Line[] = [];
  for (const line of all) {
    const at = line.frames.findIndex((index) => stacks.frames[index]!.n === name);
    if (at < 0) continue;
    callers.push({ ...line, frames: line.frames.slice(0, at + 1) });
    callees.push({ ...line, frames: line.frames.slice(at) });
  }
  return { callers, callees };
}

/** What each function holds by way of the standard libraries: a vector's memory is that of the function which fills it. */
export function holders(stacks: Stacks, all: Line[]): { name: string; value: number }[] {
  const found = new Map<string, number>();
  for (const line of all) {
    let place = line.frames.length - 1;
    while (place > 0 && stacks.frames[line.frames[place]!]!.p) place--;
    // Where all are of the libraries, it is the one that allocates.
    if (place <= 0 && stacks.frames[line.frames[0]!]?.p) place = line.frames.length - 1;
    const name = stacks.frames[line.frames[place]!]?.n ?? "(no stack)";
    found.set(name, (found.get(name) ?? 0) + line.value);
  }
  return [...found].map(([name, value]) => ({ name, value })).sort((a, b) => b.value - a.value);
}

/** The sums; weight is that of gains and losses alike, of which percentages are. */
export function total(all: Line[]): { value: number; base: number; weight: number } {
  let value = 0;
  let base = 0;
  let weight = 0;
  for (const line of all) {
    value += line.value;
    base += line.base;
    weight += Math.abs(line.value);
  }
  return { value, base, weight };
}

/** What a value stands for where two moments are compared: the larger side, so that what is gone is seen too. */
export function weight(value: number, base: number): number {
  return Math.max(Math.abs(value), Math.abs(base));
}
