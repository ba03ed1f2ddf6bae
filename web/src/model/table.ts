// The sorted table of functions. Pure functions.
import type { Row } from "./stacks.ts";

export type Column = "flat" | "cum" | "flatChange" | "cumChange" | "name";

const VALUES: Record<Column, (row: Row) => number | string> = {
  flat: (row) => row.flat,
  cum: (row) => row.cum,
  flatChange: (row) => row.flat - row.flatBase,
  cumChange: (row) => row.cum - row.cumBase,
  name: (row) => row.name,
};

/** The column named in the address, if it exists. "-cum" is in reverse order. */
export function column(sort: string, compares: boolean): { by: Column; turned: boolean } {
  const turned = sort.startsWith("-");
  const name = turned ? sort.slice(1) : sort;
  if (Object.hasOwn(VALUES, name) && (compares || !name.endsWith("Change"))) return { by: name as Column, turned };
  return { by: compares ? "flatChange" : "flat", turned: false };
}

/** The largest first, names from a to z; or reversed. */
export function sorted(rows: Row[], by: Column, turned: boolean): Row[] {
  const value = VALUES[by];
  const all = [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "string" || typeof y === "string") return String(x) < String(y) ? -1 : 1;
    return Math.abs(y) - Math.abs(x) || b.flat - a.flat || Math.abs(b.cum) - Math.abs(a.cum);
  });
  return turned ? all.reverse() : all;
}
