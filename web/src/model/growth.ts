// The growing stacks in short form: stacks that would be shown with the same names are merged. Pure functions.
import type { Suspect } from "../answers.ts";

/** The number of names shown for a stack, without the innermost ones of standard libraries (views/path.tsx). */
export const MAX_NAMES = 3;

/**
 * Merges the growth of stacks with the same callers, the fastest first: a vector of boxes and the boxes
 * themselves belong to one function.
 */
export function mergeGrowth(suspects: Suspect[]): Suspect[] {
  const found = new Map<string, Suspect>();
  for (const one of suspects) {
    const names = one.stack.slice(one.inner, one.inner + MAX_NAMES).join("\n");
    const known = found.get(names);
    if (known)
      found.set(names, { ...known, bytes_per_s: known.bytes_per_s + one.bytes_per_s, now: known.now + one.now });
    else found.set(names, one);
  }
  return [...found.values()].sort((a, b) => b.bytes_per_s - a.bytes_per_s);
}
