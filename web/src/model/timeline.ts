// Moments on a time line: their positions, and the two that a drag selects. Pure functions.

/** Positions from 0 (the first) to 1 (the last). */
export function relativePositions(times: number[]): number[] {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return times.map((time) => (last > first ? (time - first) / (last - first) : 0));
}

/** The index of the nearest value. */
export function nearestIndex(values: number[], to: number): number {
  return values.reduce((best, value, i) => (Math.abs(value - to) < Math.abs(values[best]! - to) ? i : best), 0);
}

/** The moments nearest to the start and the end of a drag, the earlier one first. They can be equal. */
export function nearestPair(values: number[], from: number, to: number): [number, number] {
  const [a, b] = [nearestIndex(values, from), nearestIndex(values, to)];
  return values[a]! <= values[b]! ? [a, b] : [b, a];
}
