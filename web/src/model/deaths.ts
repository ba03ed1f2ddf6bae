// Rows of the kind deaths: the allocating stack, the joint frame, and below it the freeing stack. Pure functions.
import type { Stacks } from "../answers.ts";
import type { SelectedStack } from "./stacks.ts";

// Written by core/profile/pprof/profile_encoder.h, read by tool/symbolize/freedby.go.
export const FREED_BY_FRAME = "(freed by)";

export interface FreeingCoverage {
  known: number;
  all: number;
}

/**
 * The share of the freed memory whose freeing stack is known. If it is unknown, there is nothing below the
 * joint.
 */
export function freeingCoverage(stacks: Stacks, all: SelectedStack[]): FreeingCoverage {
  const sum: FreeingCoverage = { known: 0, all: 0 };
  for (const line of all) {
    sum.all += line.value;
    if (stacks.frames[line.frames[line.frames.length - 1]!]?.n !== FREED_BY_FRAME) sum.known += line.value;
  }
  return sum;
}
