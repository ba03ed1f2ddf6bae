// A function by line: the flat value of each line, and its cumulative value including callees. Pure functions.
import type { Stacks } from "../answers.ts";
import { type SelectedStack, weight } from "./stacks.ts";

export interface LineValues {
  flat: number;
  cum: number;
  flatBase: number;
  cumBase: number;
}

/**
 * The part of a function in one file. A function can have several: static functions with the same name, or
 * inlined code.
 */
export interface FileLines {
  file: string;
  lines: Map<number, LineValues>; // by line number; 0: unknown
  total: LineValues;
}

function zeroValues(): LineValues {
  return { flat: 0, cum: 0, flatBase: 0, cumBase: 0 };
}

function addValue(sum: LineValues, line: SelectedStack, self: boolean, cum: boolean): void {
  if (self) {
    sum.flat += line.value;
    sum.flatBase += line.base;
  }
  if (cum) {
    sum.cum += line.value;
    sum.cumBase += line.base;
  }
}

/**
 * The function's files, the largest first. A stack counts once per line, even if it contains the line several
 * times.
 */
export function valuesByLine(stacks: Stacks, all: SelectedStack[], name: string): FileLines[] {
  const parts = new Map<string, FileLines>();
  for (const line of all) {
    const seen = new Set<LineValues>();
    line.frames.forEach((index, place) => {
      const frame = stacks.frames[index]!;
      if (frame.n !== name) return;
      const self = place === line.frames.length - 1;
      let part = parts.get(frame.f ?? "");
      if (!part) {
        part = { file: frame.f ?? "", lines: new Map(), total: zeroValues() };
        parts.set(part.file, part);
      }
      let sum = part.lines.get(frame.l ?? 0);
      if (!sum) {
        sum = zeroValues();
        part.lines.set(frame.l ?? 0, sum);
      }
      for (const one of [part.total, sum]) {
        addValue(one, line, self, !seen.has(one));
        seen.add(one);
      }
    });
  }
  const size = (part: FileLines) => weight(part.total.cum, part.total.cumBase);
  return [...parts.values()].sort((a, b) => size(b) - size(a));
}

/**
 * The lines to show: from a little before the first line with a value to a little after the last one, or all
 * lines.
 */
export function excerpt(part: FileLines, count: number, whole: boolean): { from: number; to: number } {
  const around = 5;
  const known = [...part.lines.keys()].filter((number) => number > 0);
  if (whole || known.length === 0) return { from: 1, to: count };
  return { from: Math.max(1, Math.min(...known) - around), to: Math.min(count, Math.max(...known) + around) };
}

/** The functions with known lines, the largest flat values first. */
export function functionsWithLines(stacks: Stacks, all: SelectedStack[]): string[] {
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
