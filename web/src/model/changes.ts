// The changes between two moments, by stack. Pure functions.
import type { Stacks } from "../answers.ts";
import { type Line, holder, weight } from "./stacks.ts";

export type What = "new" | "gone" | "grown" | "shrunk" | "same";

export const WHATS: What[] = ["new", "grown", "shrunk", "gone"];

export interface Changed {
  stack: string[]; // innermost first
  inner: number; // number of innermost functions that belong to a standard library: the next one holds the memory
  value: number;
  base: number;
  what: What;
}

export interface Part {
  stacks: number;
  change: number;
}

export interface Changes {
  rows: Changed[]; // the changed ones, the largest change first
  parts: Record<What, Part>;
  value: number;
  base: number;
}

function what(value: number, base: number): What {
  if (value === base) return "same";
  if (base === 0) return "new";
  if (value === 0) return "gone";
  return value > base ? "grown" : "shrunk";
}

/** Stacks are identified by the names of their functions: another line in the same function is the same stack. */
export function changes(stacks: Stacks, all: Line[]): Changes {
  const known = new Map<string, Changed>();
  for (const line of all) {
    const names = line.frames.map((index) => stacks.frames[index]!.n);
    const key = names.join("\n");
    let row = known.get(key);
    if (!row) known.set(key, (row = { stack: names.reverse(), inner: line.frames.length - 1 - holder(stacks, line), value: 0, base: 0, what: "same" }));
    row.value += line.value;
    row.base += line.base;
  }
  const none = (): Part => ({ stacks: 0, change: 0 });
  const sums: Changes = { rows: [], parts: { new: none(), gone: none(), grown: none(), shrunk: none(), same: none() }, value: 0, base: 0 };
  for (const row of known.values()) {
    row.what = what(row.value, row.base);
    const part = sums.parts[row.what];
    part.stacks++;
    part.change += row.value - row.base;
    sums.value += row.value;
    sums.base += row.base;
    if (row.what !== "same") sums.rows.push(row);
  }
  sums.rows.sort((a, b) => Math.abs(b.value - b.base) - Math.abs(a.value - a.base) || weight(b.value, b.base) - weight(a.value, a.base));
  return sums;
}
