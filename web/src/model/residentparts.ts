// The parts of resident memory, from the program's own memory outwards. The parts of a point add up to its RSS.
import type { Point } from "../answers.ts";

export interface ResidentPart {
  label: string;
  of: (point: Point) => number;
  colour: string;
}

/** Resident free pages, which the process also counts as cached. */
function dirtyBytes(point: Point): number {
  return Math.min(point.dirty, point.cached);
}

export const RESIDENT_PARTS: ResidentPart[] = [
  { label: "live", of: (p) => p.live, colour: "#2563eb" },
  { label: "cached by threads", of: (p) => p.cached - dirtyBytes(p), colour: "#38bdf8" },
  { label: "fragmentation", of: (p) => p.frag, colour: "#f59e0b" },
  { label: "dirty", of: dirtyBytes, colour: "#0891b2" },
  { label: "metadata", of: (p) => p.meta, colour: "#a855f7" },
  { label: "not ours", of: (p) => p.other, colour: "#9ca3af" },
];
