// Rows of the kind deaths: where blocks were allocated, a frame that joins, and below it who freed them. Pure functions.
import type { Stacks } from "../api.ts";
import type { Line } from "./stacks.ts";

// core/profile/profile_encoder.h writes it, tool/symbolize/joined.go reads it.
export const JOINT = "(freed by)";

export interface Freed {
  known: number;
  all: number;
}

/** How much of what was freed is known by whom: nothing stands below the joint where it is not. */
export function freed(stacks: Stacks, all: Line[]): Freed {
  const sum: Freed = { known: 0, all: 0 };
  for (const line of all) {
    sum.all += line.value;
    if (stacks.frames[line.frames[line.frames.length - 1]!]?.n !== JOINT) sum.known += line.value;
  }
  return sum;
}
