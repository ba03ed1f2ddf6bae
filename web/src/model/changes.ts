// The changes between two moments, by stack. Pure functions.
import type { Stacks } from "../answers.ts";
import { holderPosition, type SelectedStack, weight } from "./stacks.ts";

export type ChangeType = "new" | "gone" | "grown" | "shrunk" | "same";

export const CHANGE_TYPES: ChangeType[] = ["new", "grown", "shrunk", "gone"];

export interface StackChange {
  stack: string[]; // innermost first
  inner: number; // number of innermost functions that belong to a standard library: the next one holds the memory
  value: number;
  base: number;
  type: ChangeType;
}

export interface ChangeTotals {
  stacks: number;
  change: number;
}

export interface Changes {
  rows: StackChange[]; // the changed ones, the largest change first
  byType: Record<ChangeType, ChangeTotals>;
  value: number;
  base: number;
}

function changeType(value: number, base: number): ChangeType {
  if (value === base) return "same";
  if (base === 0) return "new";
  if (value === 0) return "gone";
  return value > base ? "grown" : "shrunk";
}

/** Stacks are identified by the names of their functions: another line in the same function is the same stack. */
export function compareStacks(stacks: Stacks, all: SelectedStack[]): Changes {
  const known = new Map<string, StackChange>();
  for (const line of all) {
    const names = line.frames.map((index) => stacks.frames[index]!.n);
    const key = names.join("\n");
    let row = known.get(key);
    if (!row) {
      row = {
        stack: names.reverse(),
        inner: line.frames.length - 1 - holderPosition(stacks, line),
        value: 0,
        base: 0,
        type: "same",
      };
      known.set(key, row);
    }
    row.value += line.value;
    row.base += line.base;
  }
  const none = (): ChangeTotals => ({ stacks: 0, change: 0 });
  const sums: Changes = {
    rows: [],
    byType: { new: none(), gone: none(), grown: none(), shrunk: none(), same: none() },
    value: 0,
    base: 0,
  };
  for (const row of known.values()) {
    row.type = changeType(row.value, row.base);
    const part = sums.byType[row.type];
    part.stacks++;
    part.change += row.value - row.base;
    sums.value += row.value;
    sums.base += row.base;
    if (row.type !== "same") sums.rows.push(row);
  }
  sums.rows.sort(
    (a, b) =>
      Math.abs(b.value - b.base) - Math.abs(a.value - a.base) || weight(b.value, b.base) - weight(a.value, a.base),
  );
  return sums;
}
