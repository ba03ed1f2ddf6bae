// Converts stacks to the displayed data: filters, a call tree, a table of functions. Pure functions.
import type { Frame, SampleType, Stacks } from "../answers.ts";

export interface Filter {
  focus?: string; // only stacks with a function that matches this case-insensitive regular expression
  ignore?: string; // no stacks with a function that matches
  hide?: string; // matching functions are removed from the stacks
  module?: string; // only stacks that end in this module
  raw?: boolean; // stacks as they are, instead of charging memory to the program's functions
}

/** Whether the filter lets all stacks pass. */
export function acceptsAll(filter: Filter): boolean {
  return !(compilePattern(filter.focus) || compilePattern(filter.ignore) || filter.module);
}

/** A stack that passes the filters, with its value and, in a comparison, its value in the base. */
export interface SelectedStack {
  frames: number[];
  value: number;
  base: number;
  blocks?: number; // if they were requested
}

/** Where a function comes from. runtime: it only passes memory on, such as functions of containers and of the allocator. */
export const ORIGINS = ["program", "library", "runtime"] as const;

export type Origin = (typeof ORIGINS)[number];

function originOf(frame: Frame): Origin {
  if (frame.p) return "runtime";
  return /\.so(\.[\d.]+)?$/.test(frame.m ?? "") ? "library" : "program";
}

/** The type that counts the blocks whose bytes are of this type; -1: there is none. */
export function blocksType(types: SampleType[], type: number): number {
  const name = types[type]?.name ?? "";
  return name.endsWith("_space") ? types.findIndex((one) => one.name === name.replace(/_space$/, "_objects")) : -1;
}

export function compilePattern(text: string | undefined): RegExp | null {
  if (!text) return null;
  try {
    return new RegExp(text, "i");
  } catch {
    return null; // incomplete input
  }
}

/** The server's error text for a pattern that is invalid in JavaScript; "": valid. */
export function patternError(name: string, text: string): string {
  try {
    new RegExp(text, "i");
    return "";
  } catch (failure) {
    const { message } = failure as Error; // "Invalid regular expression: /(/i: Unterminated group"
    return `${name}=${text}: expected a regular expression, read as JavaScript does: ${message.slice(message.lastIndexOf(": ") + 2)}`;
  }
}

/** Whether a stack of these functions passes. */
export function matchesFilters(names: string[], focus: RegExp | null, ignore: RegExp | null): boolean {
  return (!focus || names.some((name) => focus.test(name))) && !(ignore && names.some((name) => ignore.test(name)));
}

/** The part of a stack that is shown if memory is charged to the program's functions; the innermost frame owns it. */
function ownedPart(stacks: Stacks, stack: number[], index: number): number[] {
  const owned = stacks.owned?.[index];
  if (!owned) return stack;
  const [outer, inner] = owned;
  const end = stack.length - inner;
  const part = stack.slice(outer, end).filter((frame, i, all) => i === all.length - 1 || !stacks.frames[frame]!.i);
  return part.length > 0 ? part : stack;
}

/** The stacks that pass, with the values of one type, and of the type that counts their blocks unless it is -1. */
export function selectStacks(stacks: Stacks, type: number, filter: Filter = {}, blocks = -1): SelectedStack[] {
  const [focus, ignore, hide] = [filter.focus, filter.ignore, filter.hide].map((text) => {
    const regexp = compilePattern(text);
    return regexp && stacks.frames.map((frame) => regexp.test(frame.n));
  });
  const out: SelectedStack[] = [];
  stacks.stacks.forEach((stack, index) => {
    const value = stacks.values[index]![type]!;
    const base = stacks.base?.[index]?.[type] ?? 0;
    if (value === 0 && base === 0) return;
    if (focus && !stack.some((frame) => focus[frame])) return;
    if (ignore && stack.some((frame) => ignore[frame])) return;
    if (filter.module && stacks.frames[stack[stack.length - 1]!]?.m !== filter.module) return;
    const part = filter.raw ? stack : ownedPart(stacks, stack, index);
    const line: SelectedStack = { frames: hide ? part.filter((frame) => !hide[frame]) : part, value, base };
    if (blocks >= 0) line.blocks = stacks.values[index]![blocks]!;
    out.push(line);
  });
  return out;
}

export interface Node {
  name: string;
  module: string;
  file: string;
  self: number;
  total: number;
  weight: number; // the sum of absolute values, since the kind "since" has gains and losses
  base: number;
  blocks: number; // 0 if they are unknown
  origin: Origin | ""; // "": the root
  depth: number; // 0: the root
  parent: Node | null;
  children: Node[];
}

/**
 * direct: a function that calls itself is one frame. all: also recursion through other functions, which are
 * removed; the callees of the innermost call are below the remaining frame.
 */
export type RecursionFolding = "" | "direct" | "all";

export interface TreeOptions {
  inverted?: boolean; // from the allocating functions to their callers
  folded?: RecursionFolding;
}

/** For each frame the number of its function's name, and the sorted names by number. */
interface NameNumbers {
  numbers: Int32Array;
  names: string[];
}

// An update builds trees and tables of 20,000 stacks. With numbers this takes a fifth of the time that it takes with
// names.
const nameNumbersCache = new WeakMap<Stacks, NameNumbers>();

/** The numbers are cached, so the frames of a profile must not change. */
function numberNames(stacks: Stacks): NameNumbers {
  let cached = nameNumbersCache.get(stacks);
  if (!cached) {
    const names = [...new Set(stacks.frames.map((frame) => frame.n))].sort();
    const places = new Map(names.map((name, position) => [name, position]));
    cached = { numbers: Int32Array.from(stacks.frames, (frame) => places.get(frame.n)!), names };
    nameNumbersCache.set(stacks, cached);
  }
  return cached;
}

/** For each frame the number of its function's name, in the order of the names. */
export function nameNumbers(stacks: Stacks): Int32Array {
  return numberNames(stacks).numbers;
}

/**
 * Many texts as one string, which is transferred to another thread a hundred times as fast as an array of
 * strings.
 */
export interface TextList {
  text: string;
  ends: Int32Array;
}

export function packTexts(texts: string[]): TextList {
  let end = 0;
  return { text: texts.join(""), ends: Int32Array.from(texts, (text) => (end += text.length)) };
}

/** The distinct texts, and for each text its index among them. */
function internTexts(all: string[]): { numbers: Int32Array; texts: TextList } {
  const places = new Map<string, number>();
  for (const text of all) if (!places.has(text)) places.set(text, places.size);
  return { numbers: Int32Array.from(all, (text) => places.get(text)!), texts: packTexts([...places.keys()]) };
}

export function unpackText({ text, ends }: TextList, position: number): string {
  return text.slice(position > 0 ? ends[position - 1] : 0, ends[position]);
}

/**
 * The stacks from the root on, sorted so that stacks with equal prefixes are adjacent: the complete data of a
 * call tree, in a form that is fast to transfer to another thread.
 */
export interface SortedStacks {
  begins: Int32Array; // start of each line's stack in `frames`, and the end of the last one
  frames: Int32Array;
  nameOf: Int32Array; // for each frame, its index in `names`, in the order of the names
  names: TextList;
  moduleOf: Int32Array; // the same for `modules`
  modules: TextList;
  fileOf: Int32Array;
  files: TextList;
  originOf: Uint8Array; // an index into ORIGINS
  order: Int32Array; // indices of lines
  values: Float64Array; // prefix sums in that order, starting with 0
  weights: Float64Array;
  bases: Float64Array;
  blocks: Float64Array;
}

/** Functions are identified by name. Locations within them are not distinguished. */
export function sortStacks(stacks: Stacks, all: SelectedStack[], shape: TreeOptions = {}): SortedStacks {
  const { numbers, names } = numberNames(stacks);
  const frameCount = all.reduce((sum, line) => sum + line.frames.length, 0);
  const begins = new Int32Array(all.length + 1);
  const frames = new Int32Array(frameCount);
  const numberStack = new Int32Array(frameCount); // for each of these frames, the number of its name
  const seen = new Int32Array(names.length).fill(-1); // for each name, its last position
  let end = 0;
  all.forEach((line, index) => {
    const begin = end;
    for (const frame of line.frames) {
      const number = numbers[frame]!;
      if (shape.folded) {
        const before = seen[number]!;
        const isOnPath = before >= begin && before < end && numberStack[before] === number;
        if (isOnPath && (shape.folded === "all" || before === end - 1)) {
          end = before + 1;
          continue;
        }
        seen[number] = end;
      }
      frames[end] = frame;
      numberStack[end++] = number;
    }
    // Recursion is folded from the root on in both directions, so that both show the same stacks.
    if (shape.inverted) for (const array of [frames, numberStack]) array.subarray(begin, end).reverse();
    begins[index + 1] = end;
  });
  const order = Int32Array.from(all.keys()).sort((one, other) => {
    const a = begins[one]!;
    const b = begins[other]!;
    const lengthA = begins[one + 1]! - a;
    const lengthB = begins[other + 1]! - b;
    const min = Math.min(lengthA, lengthB);
    for (let depth = 0; depth < min; depth++) {
      const difference = numberStack[a + depth]! - numberStack[b + depth]!;
      if (difference !== 0) return difference;
    }
    return lengthA - lengthB;
  });
  const sums = (of: (line: SelectedStack) => number) => {
    const out = new Float64Array(all.length + 1);
    for (const [position, index] of order.entries()) out[position + 1] = out[position]! + of(all[index]!);
    return out;
  };
  const modules = internTexts(stacks.frames.map((frame) => frame.m ?? ""));
  const files = internTexts(stacks.frames.map((frame) => frame.f ?? ""));
  return {
    begins,
    frames,
    order,
    nameOf: numbers.slice(),
    names: packTexts(names),
    moduleOf: modules.numbers,
    modules: modules.texts,
    fileOf: files.numbers,
    files: files.texts,
    originOf: Uint8Array.from(stacks.frames, (frame) => ORIGINS.indexOf(originOf(frame))),
    values: sums((line) => line.value),
    weights: sums((line) => Math.abs(line.value)),
    bases: sums((line) => line.base),
    blocks: sums((line) => line.blocks ?? 0),
  };
}

/** A node that creates its children on demand: of 100,000 nodes only the visible ones are created. */
class LazyNode implements Node {
  readonly name: string;
  readonly module: string;
  private readonly frame: number;
  readonly total: number;
  readonly weight: number;
  readonly base: number;
  readonly blocks: number;
  readonly depth: number;
  readonly parent: LazyNode | null;
  private readonly of: SortedStacks;
  private readonly begin: number; // in `order`
  private readonly end: number;
  private cached: LazyNode[] | null = null;

  constructor(of: SortedStacks, parent: LazyNode | null, begin: number, end: number) {
    const depth = parent ? parent.depth + 1 : 0;
    const frame = parent ? of.frames[of.begins[of.order[begin]!]! + depth - 1]! : -1;
    this.of = of;
    this.frame = frame;
    this.parent = parent;
    this.depth = depth;
    this.begin = begin;
    this.end = end;
    this.name = parent ? unpackText(of.names, of.nameOf[frame]!) : "all";
    this.module = parent ? unpackText(of.modules, of.moduleOf[frame]!) : "";
    this.total = of.values[end]! - of.values[begin]!;
    this.weight = of.weights[end]! - of.weights[begin]!;
    this.base = of.bases[end]! - of.bases[begin]!;
    this.blocks = of.blocks[end]! - of.blocks[begin]!;
  }

  get origin(): Origin | "" {
    return this.parent ? ORIGINS[this.of.originOf[this.frame]!]! : "";
  }

  get file(): string {
    return this.parent ? unpackText(this.of.files, this.of.fileOf[this.frame]!) : "";
  }

  /** The value of the lines that end at this node. */
  get self(): number {
    return this.of.values[this.firstAfter(this.begin, -1)]! - this.of.values[this.begin]!;
  }

  get children(): LazyNode[] {
    if (!this.cached) {
      this.cached = [];
      for (let at = this.firstAfter(this.begin, -1); at < this.end; ) {
        const end = this.firstAfter(at, this.nameAt(at));
        this.cached.push(new LazyNode(this.of, this, at, end));
        at = end;
      }
    }
    return this.cached;
  }

  /** The number of the next name of a stack; -1: it ends here. */
  private nameAt(position: number): number {
    const { begins, order, frames, nameOf } = this.of;
    const at = begins[order[position]!]! + this.depth;
    return at < begins[order[position]! + 1]! ? nameOf[frames[at]!]! : -1;
  }

  /** The first stack at or after `from` whose next name is greater than this one. */
  private firstAfter(from: number, name: number): number {
    let min = from;
    let step = 1;
    while (min + step < this.end && this.nameAt(min + step) <= name) {
      min += step;
      step *= 2;
    }
    let max = Math.min(this.end, min + step);
    while (min < max) {
      const middle = (min + max) >> 1;
      if (this.nameAt(middle) <= name) min = middle + 1;
      else max = middle;
    }
    return min;
  }
}

/** The call tree. Children are sorted by name. */
export function callTree(of: SortedStacks): Node {
  return new LazyNode(of, null, 0, of.order.length);
}

/** The names from the root to a node, without the root's. */
export function pathOf(node: Node): string[] {
  const path: string[] = [];
  for (let at: Node | null = node; at?.parent; at = at.parent) path.unshift(at.name);
  return path;
}

/** The node at the end of a path, or the last existing node on it. */
export function findNode(root: Node, path: string[]): Node {
  let node = root;
  for (const name of path) {
    const child = node.children.find((one) => one.name === name);
    if (!child) break;
    node = child;
  }
  return node;
}

export interface FunctionRow {
  name: string;
  file: string;
  module: string;
  flat: number;
  cum: number;
  flatBase: number;
  cumBase: number;
}

/** By function: its own allocations (flat), and those including its callees (cum). */
export function functionTable(stacks: Stacks, all: SelectedStack[]): FunctionRow[] {
  const numbers = nameNumbers(stacks);
  const rows: FunctionRow[] = [];
  const cached: FunctionRow[] = []; // by the number of the name
  const seen: number[] = []; // the same: the last line that contains it
  all.forEach((line, index) => {
    line.frames.forEach((position, depth) => {
      const number = numbers[position]!;
      let row = cached[number];
      if (!row) {
        const frame = stacks.frames[position]!;
        row = { name: frame.n, file: frame.f ?? "", module: frame.m ?? "", flat: 0, cum: 0, flatBase: 0, cumBase: 0 };
        cached[number] = row;
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

/** The stacks down to a function, and the stacks from it on (for a recursive function, from its outermost call). */
export function splitAt(
  stacks: Stacks,
  all: SelectedStack[],
  name: string,
): { callers: SelectedStack[]; callees: SelectedStack[] } {
  const callers: SelectedStack[] = [];
  const callees: SelectedStack[] = [];
  const isTarget = stacks.frames.map((frame) => frame.n === name);
  for (const line of all) {
    const at = line.frames.findIndex((index) => isTarget[index]);
    if (at < 0) continue;
    callers.push({ ...line, frames: line.frames.slice(0, at + 1) });
    callees.push({ ...line, frames: line.frames.slice(at) });
  }
  return { callers, callees };
}

/** The position of the function that holds a stack's memory: the innermost one outside the standard libraries. */
export function holderPosition(stacks: Stacks, line: SelectedStack): number {
  let position = line.frames.length - 1;
  while (position > 0 && stacks.frames[line.frames[position]!]!.p) position--;
  // If all functions belong to the libraries, it is the innermost one.
  return position <= 0 && stacks.frames[line.frames[0]!]?.p ? line.frames.length - 1 : position;
}

export interface FunctionMemory {
  name: string;
  value: number;
}

function largestFirst(sums: Map<string, number>): FunctionMemory[] {
  return [...sums].map(([name, value]) => ({ name, value })).sort((a, b) => b.value - a.value);
}

/**
 * The memory of each function, including memory allocated through standard libraries: a vector's memory belongs
 * to the function that fills it.
 */
export function memoryHolders(stacks: Stacks, all: SelectedStack[]): FunctionMemory[] {
  const found = new Map<string, number>();
  for (const line of all) {
    const name = stacks.frames[line.frames[holderPosition(stacks, line)]!]?.n ?? "(no stack)";
    found.set(name, (found.get(name) ?? 0) + line.value);
  }
  return largestFirst(found);
}

/**
 * The nearest callers outside the libraries for which a function holds memory, if there are several. If the function
 * is a general-purpose helper, these are the relevant functions.
 */
export function callersOfHolder(stacks: Stacks, all: SelectedStack[], name: string): FunctionMemory[] {
  const found = new Map<string, number>();
  for (const line of all) {
    let position = holderPosition(stacks, line);
    if (stacks.frames[line.frames[position]!]?.n !== name) continue;
    const isOther = (frame: { n: string; p?: boolean }) => !frame.p && frame.n !== name;
    for (position--; position >= 0 && !isOther(stacks.frames[line.frames[position]!]!); ) position--;
    const caller = stacks.frames[line.frames[position]!]?.n;
    if (caller !== undefined) found.set(caller, (found.get(caller) ?? 0) + line.value);
  }
  return found.size > 1 ? largestFirst(found) : [];
}

/** The sums. weight is the sum of absolute values, the base of percentages. */
export function sumStacks(all: SelectedStack[]): { value: number; base: number; weight: number } {
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

/**
 * The value of all stacks with a matching function, each stack once, and the number of matching functions; null
 * without a search.
 */
export function searchMatches(
  stacks: Stacks,
  all: SelectedStack[],
  search: RegExp | null,
): { value: number; functions: number } | null {
  if (!search) return null;
  const isMatch = stacks.frames.map((frame) => search.test(frame.n));
  const names = new Set<string>();
  let value = 0;
  for (const line of all) {
    const found = line.frames.filter((frame) => isMatch[frame]);
    if (found.length > 0) value += line.value;
    for (const frame of found) names.add(stacks.frames[frame]!.n);
  }
  return { value, functions: names.size };
}

/** The weight of a value in a comparison: the larger of the two values, so that freed memory is visible too. */
export function weight(value: number, base: number): number {
  return Math.max(Math.abs(value), Math.abs(base));
}
