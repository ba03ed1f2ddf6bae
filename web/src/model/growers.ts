// Who grows, in few words: stacks that would be told by the same names are one. Pure functions.
import type { Suspect } from "../api.ts";

/** So many names of a stack are told, without those of the standard libraries inside (views/path.tsx). */
export const TOLD = 3;

/** What grows by way of the same callers, together, the fastest first: a vector of boxes and the boxes are of one function. */
export function growers(suspects: Suspect[]): Suspect[] {
  const found = new Map<string, Suspect>();
  for (const one of suspects) {
    const names = one.stack.slice(one.inner, one.inner + TOLD).join("\n");
    const known = found.get(names);
    if (known) found.set(names, { ...known, bytes_per_s: known.bytes_per_s + one.bytes_per_s, now: known.now + one.now });
    else found.set(names, one);
  }
  return [...found.values()].sort((a, b) => b.bytes_per_s - a.bytes_per_s);
}
