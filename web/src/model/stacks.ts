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

// Of each frame the number of its function's name, in the order of the names. An update makes trees and tables of 20,000 stacks:
// by numbers that takes a fifth of the time that it takes by names.
const numbered = new WeakMap<Stacks, Int32Array>();

/** Of a profile's frames; they stay as they are. */
export function nameNumbers(stacks: Stacks): Int32Array {
  let numbers = numbered.get(stacks);
  if (!numbers) {
    const names = [...new Set(stacks.frames.map((frame) => frame.n))].sort();
    const places = new Map(names.map((name, place) => [name, place]));
    numbers = Int32Array.from(stacks.frames, (frame) => places.get(frame.n)!);
    numbered.set(stacks, numbers);
  }
  return numbers;
}

/** The ways from the root on, one behind the other: the frames, and the numbers of their names. */
interface Ways {
  begins: Int32Array; // of each line's way, and the end of the last one
  frames: Int32Array;
  names: Int32Array;
}

function waysOf(stacks: Stacks, all: Line[], shape: Shape): Ways {
  const numbers = nameNumbers(stacks);
  const room = all.reduce((sum, line) => sum + line.frames.length, 0);
  const ways = { begins: new Int32Array(all.length + 1), frames: new Int32Array(room), names: new Int32Array(room) };
  let end = 0;
  all.forEach((line, index) => {
    const begin = end;
    const last = line.frames.length - 1;
    for (let i = 0; i <= last; i++) {
      const frame = line.frames[shape.inverted ? last - i : i]!;
      if (shape.folded && end > begin && ways.names[end - 1] === numbers[frame]) continue;
      ways.frames[end] = frame;
      ways.names[end++] = numbers[frame]!;
    }
    ways.begins[index + 1] = end;
  });
  return ways;
}

/** How many frames from the root on two ways have in common. */
function common(ways: Ways, one: number, other: number): number {
  const { begins, names } = ways;
  const [a, b] = [begins[one]!, begins[other]!];
  const most = Math.min(begins[one + 1]! - a, begins[other + 1]! - b);
  let depth = 0;
  while (depth < most && names[a + depth] === names[b + depth]) depth++;
  return depth;
}

/** The tree of calls. Functions are told apart by name; places in them are not. Children are sorted by name. */
export function tree(stacks: Stacks, all: Line[], shape: Shape = {}): Node {
  const ways = waysOf(stacks, all, shape);
  const name = (line: number, depth: number) => (ways.begins[line]! + depth < ways.begins[line + 1]! ? ways.names[ways.begins[line]! + depth]! : -1);
  const order = [...all.keys()].sort((one, other) => {
    const depth = common(ways, one, other);
    return name(one, depth) - name(other, depth);
  });
  const root: Node = { name: "all", frame: null, self: 0, total: 0, weight: 0, base: 0, depth: 0, parent: null, children: [] };
  const nodes = [root];
  const path = [root]; // to the line before: in this order the next one branches off from it
  order.forEach((index, place) => {
    const begin = ways.begins[index]!;
    const length = ways.begins[index + 1]! - begin;
    for (let depth = place > 0 ? common(ways, index, order[place - 1]!) : 0; depth < length; depth++) {
      const frame = stacks.frames[ways.frames[begin + depth]!]!;
      const parent = path[depth]!;
      const child = { name: frame.n, frame, self: 0, total: 0, weight: 0, base: 0, depth: depth + 1, parent, children: [] };
      parent.children.push(child);
      nodes.push((path[depth + 1] = child));
    }
    const { value, base } = all[index]!;
    const node = path[length]!;
    node.self += value;
    node.total += value;
    node.weight += Math.abs(value);
    node.base += base;
  });
  for (let i = nodes.length - 1; i > 0; i--) {
    const { parent, total, weight, base } = nodes[i]!;
    parent!.total += total;
    parent!.weight += weight;
    parent!.base += base;
  }
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
  const numbers = nameNumbers(stacks);
  const rows: Row[] = [];
  const known: Row[] = []; // by the number of the name
  const seen: number[] = []; // likewise: the last line that has it
  all.forEach((line, index) => {
    line.frames.forEach((place, depth) => {
      const number = numbers[place]!;
      let row = known[number];
      if (!row) {
        const frame = stacks.frames[place]!;
        row = { name: frame.n, file: frame.f ?? "", module: frame.m ?? "", flat: 0, cum: 0, flatBase: 0, cumBase: 0 };
        known[number] = row;
        rows.push(row);
      }
      if (depth === line.frames.length - 1) {
        row.flat += line.value;
        row.flatBase += line.base;
      }
      if (seen[number] !== index) {
        seen[number] = index;
        row.cum += line.value;
        row.cumBase += line.base;
      }
    });
  });
  return rows;
}

/** Around one function: the stacks down to it, and those from it on (a recursive one: from its outermost call). */
export function around(stacks: Stacks, all: Line[], name: string): { callers: Line[]; callees: Line[] } {
  const callers: Line[] = [];
  const callees: Line[] = [];
  const isIt = stacks.frames.map((frame) => frame.n === name);
  for (const line of all) {
    const at = line.frames.findIndex((index) => isIt[index]);
    if (at < 0) continue;
    callers.push({ ...line, frames: line.frames.slice(0, at + 1) });
    callees.push({ ...line, frames: line.frames.slice(at) });
  }
  return { callers, callees };
}

/** The place of the function that holds a stack's memory: the innermost that is not of the standard libraries. */
function holder(stacks: Stacks, line: Line): number {
  let place = line.frames.length - 1;
  while (place > 0 && stacks.frames[line.frames[place]!]!.p) place--;
  // Where all are of the libraries, it is the one that allocates.
  return place <= 0 && stacks.frames[line.frames[0]!]?.p ? line.frames.length - 1 : place;
}

export interface Held {
  name: string;
  value: number;
}

function largestFirst(sums: Map<string, number>): Held[] {
  return [...sums].map(([name, value]) => ({ name, value })).sort((a, b) => b.value - a.value);
}

/** What each function holds by way of the standard libraries: a vector's memory is that of the function which fills it. */
export function holders(stacks: Stacks, all: Line[]): Held[] {
  const found = new Map<string, number>();
  for (const line of all) {
    const name = stacks.frames[line.frames[holder(stacks, line)]!]?.n ?? "(no stack)";
    found.set(name, (found.get(name) ?? 0) + line.value);
  }
  return largestFirst(found);
}

/** For whom a function holds what it does, where that are several: the next functions outwards. Of a helper, they are who matters. */
export function heldFor(stacks: Stacks, all: Line[], name: string): Held[] {
  const found = new Map<string, number>();
  for (const line of all) {
    let place = holder(stacks, line);
    if (stacks.frames[line.frames[place]!]?.n !== name) continue;
    const isOther = (frame: { n: string; p?: boolean }) => !frame.p && frame.n !== name;
    for (place--; place >= 0 && !isOther(stacks.frames[line.frames[place]!]!); ) place--;
    const caller = stacks.frames[line.frames[place]!]?.n;
    if (caller !== undefined) found.set(caller, (found.get(caller) ?? 0) + line.value);
  }
  return found.size > 1 ? largestFirst(found) : [];
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
