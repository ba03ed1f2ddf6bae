// A function by line: what each line allocated itself (flat), and with what it calls (cum). Pure functions.
import type { Stacks } from "../api.ts";
import { type Line, weight } from "./stacks.ts";

export interface Sum {
  flat: number;
  cum: number;
  flatBase: number;
  cumBase: number;
}

/** What of a function is in one file; a function has several where the profile says so (static ones of one name, what is inlined). */
export interface Part {
  file: string;
  lines: Map<number, Sum>; // by number; 0: the profile does not say which
  total: Sum;
}

function none(): Sum {
  return { flat: 0, cum: 0, flatBase: 0, cumBase: 0 };
}

function add(sum: Sum, line: Line, self: boolean, cum: boolean): void {
  if (self) {
    sum.flat += line.value;
    sum.flatBase += line.base;
  }
  if (cum) {
    sum.cum += line.value;
    sum.cumBase += line.base;
  }
}

/** The function's files, that with most first. A stack counts once for a line, however often it passes it. */
export function byLine(stacks: Stacks, all: Line[], name: string): Part[] {
  const parts = new Map<string, Part>();
  for (const line of all) {
    const seen = new Set<Sum>();
    line.frames.forEach((index, place) => {
      const frame = stacks.frames[index]!;
      if (frame.n !== name) return;
      const self = place === line.frames.length - 1;
      let part = parts.get(frame.f ?? "");
      if (!part) parts.set(frame.f ?? "", (part = { file: frame.f ?? "", lines: new Map(), total: none() }));
      let sum = part.lines.get(frame.l ?? 0);
      if (!sum) part.lines.set(frame.l ?? 0, (sum = none()));
      for (const one of [part.total, sum]) {
        add(one, line, self, !seen.has(one));
        seen.add(one);
      }
    });
  }
  const size = (part: Part) => weight(part.total.cum, part.total.cumBase);
  return [...parts.values()].sort((a, b) => size(b) - size(a));
}

/** The lines to show: from a little before the first that has a value to a little behind the last, or all. */
export function excerpt(part: Part, count: number, whole: boolean): { from: number; to: number } {
  const around = 5;
  const known = [...part.lines.keys()].filter((number) => number > 0);
  if (whole || known.length === 0) return { from: 1, to: count };
  return { from: Math.max(1, Math.min(...known) - around), to: Math.min(count, Math.max(...known) + around) };
}

/** Functions whose lines are known, those that hold most themselves first. */
export function withLines(stacks: Stacks, all: Line[]): string[] {
  const sums = new Map<string, number>();
  for (const line of all) {
    line.frames.forEach((index, place) => {
      const frame = stacks.frames[index]!;
      if (!frame.f || !frame.l) return;
      const own = place === line.frames.length - 1 ? weight(line.value, line.base) : 0;
      sums.set(frame.n, (sums.get(frame.n) ?? 0) + own);
    });
  }
  return [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
}
