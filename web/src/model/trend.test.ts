import assert from "node:assert/strict";
import test from "node:test";
import type { Point } from "../answers.ts";
import { trendOf } from "./trend.ts";

const START = 1_700_000_000_000;

/** One point a second. */
const pointsOf = (values: number[], run?: number) =>
  values.map((rss, i) => ({ t: START + 1000 * i, rss, ...(run ? { run } : {}) }) as Point);
const rss = (point: Point) => point.rss;
const range = (length: number, value: (i: number) => number) => Array.from({ length }, (_, i) => value(i));
// Repeatable noise between -1 and 1.
const noise = (i: number) => 2 * ((((i + 1) * 2654435761) % 4294967296) / 4294967296) - 1;

test("growth is told from noise", () => {
  const steady = trendOf(pointsOf(range(300, (i) => 1000 + 10 * noise(i))), rss)!;
  assert.equal(steady.isClear, false);
  const grows = trendOf(pointsOf(range(300, (i) => 1000 + i + 10 * noise(i))), rss)!;
  assert.ok(grows.isClear);
  assert.ok(Math.abs(grows.perMinute - 60) < 3, `${grows.perMinute}`);
  assert.equal(grows.seconds, 299);
  const shrinks = trendOf(pointsOf(range(100, (i) => 1000 - 2 * i)), rss)!;
  assert.ok(shrinks.isClear && Math.abs(shrinks.perMinute + 120) < 1);
  assert.equal(trendOf(pointsOf(range(100, () => 7)), rss)!.isClear, false, "it does not change at all");
  const jump = trendOf(pointsOf(range(300, (i) => (i === 150 ? 1e9 : 1000 + i))), rss)!;
  assert.ok(Math.abs(jump.perMinute - 60) < 3, "one outlier does not count");
});

test("a short time has no trend", () => {
  assert.equal(trendOf([], rss), null);
  assert.equal(trendOf(pointsOf(range(20, (i) => i)), rss), null);
  assert.equal(
    trendOf(
      pointsOf([1, 2, 3]).map((point, i) => ({ ...point, t: START + 20_000 * i })),
      rss,
    ),
    null,
  );
});

test("only the last minutes of the last process count", () => {
  const before = pointsOf(
    range(600, (i) => 5000 - i),
    1,
  );
  const after = pointsOf(
    range(60, (i) => i),
    2,
  ).map((point) => ({ ...point, t: point.t + 600_000 }));
  const trend = trendOf([...before, ...after], rss)!;
  assert.equal(trend.seconds, 59);
  assert.ok(trend.perMinute > 0);
  assert.equal(trendOf(before, rss)!.seconds, 300);
});
