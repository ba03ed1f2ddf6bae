// The sorted table of functions. Pure functions.
import type { FunctionRow } from "./stacks.ts";

export type Column = "flat" | "cum" | "flatChange" | "cumChange" | "name";

const VALUES: Record<Column, (row: FunctionRow) => number | string> = {
  flat: (row) => row.flat,
  cum: (row) => row.cum,
  flatChange: (row) => row.flat - row.flatBase,
  cumChange: (row) => row.cum - row.cumBase,
  name: (row) => row.name,
};

/** The column named in the address, if it exists. "-cum" is in reverse order. */
export function parseSort(sort: string, isComparison: boolean): { by: Column; reversed: boolean } {
  const reversed = sort.startsWith("-");
  const name = reversed ? sort.slice(1) : sort;
  if (Object.hasOwn(VALUES, name) && (isComparison || !name.endsWith("Change")))
    return { by: name as Column, reversed };
  return { by: isComparison ? "flatChange" : "flat", reversed: false };
}

/** The largest first, names from a to z; or reversed. */
export function sortRows(rows: FunctionRow[], by: Column, reversed: boolean): FunctionRow[] {
  const value = VALUES[by];
  const all = [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "string" || typeof y === "string") return String(x) < String(y) ? -1 : 1;
    return Math.abs(y) - Math.abs(x) || b.flat - a.flat || Math.abs(b.cum) - Math.abs(a.cum);
  });
  return reversed ? all.reverse() : all;
}
