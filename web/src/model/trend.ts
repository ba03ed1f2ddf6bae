// Whether a figure of the process grows at present, and how fast.
import type { Point } from "../answers.ts";

const WINDOW_MS = 300_000;
const MIN_SPAN_MS = 30_000;
const MAX_POINTS = 40; // more are not independent of each other
const MIN_POINTS = 8;
const MIN_SCORE = 2.58; // certainty of 99 %

export interface Trend {
  perMinute: number; // the median slope of all pairs of points (Theil and Sen)
  isClear: boolean; // by Mann and Kendall's test; otherwise it may be chance
  seconds: number; // the time that was looked at
}

/** The trend over the last five minutes of the last process; null: the time is too short. */
export function trendOf(points: Point[], of: (point: Point) => number): Trend | null {
  const last = points[points.length - 1];
  if (!last) return null;
  const recent = points.filter((point) => point.run === last.run && point.t >= last.t - WINDOW_MS);
  const seconds = (last.t - recent[0]!.t) / 1000;
  if (recent.length < MIN_POINTS || 1000 * seconds < MIN_SPAN_MS) return null;
  const count = Math.min(MAX_POINTS, recent.length);
  const some = Array.from({ length: count }, (_, i) => recent[Math.round((i * (recent.length - 1)) / (count - 1))]!);
  const slopes: number[] = [];
  let score = 0;
  for (const [i, later] of some.entries()) {
    for (const earlier of some.slice(0, i)) {
      const change = of(later) - of(earlier);
      slopes.push((60_000 * change) / (later.t - earlier.t));
      score += Math.sign(change);
    }
  }
  slopes.sort((a, b) => a - b);
  const deviation = Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18);
  return {
    perMinute: slopes[slopes.length >> 1]!,
    isClear: Math.abs(score) - 1 > MIN_SCORE * deviation,
    seconds,
  };
}
