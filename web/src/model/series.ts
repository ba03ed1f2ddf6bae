// From points to lines: rates are differences of counts over time.
import type { Point } from "../api.ts";

export function seconds(points: Point[]): number[] {
  return points.map((point) => point.t / 1000);
}

export function level(points: Point[], of: (point: Point) => number): number[] {
  return points.map(of);
}

/** Per second, at each point since the one before; the first has none and shows the second's. */
export function rate(points: Point[], of: (point: Point) => number): number[] {
  const rates = points.map((point, i) => {
    const before = points[i - 1];
    if (!before || point.t <= before.t) return 0;
    return Math.max(0, (1000 * (of(point) - of(before))) / (point.t - before.t));
  });
  if (rates.length > 1) rates[0] = rates[1]!;
  return rates;
}

/** Adds what is new, in the server's bounds. */
export function joined(points: Point[], more: Point[], most = 6000): Point[] {
  if (more.length === 0) return points;
  const last = points[points.length - 1]?.t ?? 0;
  return [...points, ...more.filter((point) => point.t > last)].slice(-most);
}
