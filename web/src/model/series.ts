// Converts points to lines. Rates are differences of counts divided by time.
import type { Point } from "../answers.ts";

/** A time without observation, between two processes of a folder. Lines are interrupted there. */
export interface Gap {
  t: number;
  run: null;
}

/** Inserts a gap between the last point of a process and the first one of the next process. */
export function insertGaps(points: Point[]): (Point | Gap)[] {
  return points.flatMap((point, i) => {
    const before = points[i - 1];
    return before && before.run !== point.run ? [{ t: (before.t + point.t) / 2, run: null }, point] : [point];
  });
}

export function timesInSeconds(points: (Point | Gap)[]): number[] {
  return points.map((point) => point.t / 1000);
}

export function valuesOf(points: (Point | Gap)[], of: (point: Point) => number): (number | null)[] {
  return points.map((point) => (point.run === null ? null : of(point)));
}

/**
 * The rate per second at each point since the previous one. A process's first point has no rate and shows that
 * of the second.
 */
export function ratePerSecond(points: (Point | Gap)[], of: (point: Point) => number): (number | null)[] {
  const since = (i: number) => {
    const [before, point] = [points[i - 1], points[i]];
    if (
      !before ||
      !point ||
      before.run === null ||
      point.run === null ||
      point.run !== before.run ||
      point.t <= before.t
    )
      return null;
    return Math.max(0, (1000 * (of(point) - of(before))) / (point.t - before.t));
  };
  return points.map((point, i) => (point.run === null ? null : (since(i) ?? since(i + 1) ?? 0)));
}

/**
 * Appends new points with the same limit as the server: if there are too many, every other point of the older
 * half is removed, except the first.
 */
export function appendPoints(points: Point[], more: Point[], maxPoints = 6000): Point[] {
  if (more.length === 0) return points;
  const last = points[points.length - 1]?.t ?? 0;
  let all = [...points, ...more.filter((point) => point.t > last)];
  while (all.length > maxPoints) {
    const half = Math.floor(all.length / 2);
    all = all.filter((_, i) => i >= half || i % 2 === 0);
  }
  return all;
}

/** The points of a sparkline: each value at its time, from the first to the last. */
export function sparkline(values: number[], times: number[], width: number, height: number): string {
  const most = Math.max(1, ...values);
  const begin = times[0] ?? 0;
  const length = Math.max(1, (times[times.length - 1] ?? 0) - begin);
  return values
    .map(
      (value, i) => `${((times[i]! - begin) / length) * (width - 2) + 1},${height - 1 - (value / most) * (height - 3)}`,
    )
    .join(" ");
}
