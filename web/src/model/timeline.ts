// Moments on a line: where they lie, and which two a drag chooses. Pure functions.

/** Each from 0, the first, to 1, the last. */
export function places(times: number[]): number[] {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return times.map((time) => (last > first ? (time - first) / (last - first) : 0));
}

/** The index of the value that is nearest. */
export function nearest(values: number[], to: number): number {
  return values.reduce((best, value, i) => (Math.abs(value - to) < Math.abs(values[best]! - to) ? i : best), 0);
}

/** The moments nearest to where a drag began and ended, the earlier one first; the same twice when that is one. */
export function between(values: number[], from: number, to: number): [number, number] {
  const [a, b] = [nearest(values, from), nearest(values, to)];
  return values[a]! <= values[b]! ? [a, b] : [b, a];
}
