import assert from "node:assert/strict";
import test from "node:test";
import type { Point } from "../answers.ts";
import { bytes, clock, count, differenceError, percent, plusMinus } from "./format.ts";
import { appendPoints, insertGaps, ratePerSecond, sparkline, timesInSeconds, valuesOf } from "./series.ts";

const point = (t: number, faults: number) => ({ t, faults }) as Point;

test("rates are per second for any distance between two points", () => {
  const points = [point(1000, 10), point(2000, 30), point(4000, 40), point(5000, 5)];
  assert.deepEqual(
    ratePerSecond(points, (p) => p.faults),
    [20, 20, 5, 0],
    "a count that falls began anew",
  );
});

test("no rate is computed across two processes", () => {
  const points = [
    point(1000, 10),
    point(2000, 30),
    { ...point(3000, 1_000_030), run: 2 },
    { ...point(4000, 1_000_035), run: 2 },
  ];
  assert.deepEqual(
    ratePerSecond(points, (p) => p.faults),
    [20, 20, 5, 5],
  );
});

test("lines break between two processes", () => {
  const points = [point(1000, 10), point(2000, 30), { ...point(6000, 7), run: 2 }, { ...point(7000, 8), run: 2 }];
  const series = insertGaps(points);
  assert.deepEqual(timesInSeconds(series), [1, 2, 4, 6, 7], "times rise");
  assert.deepEqual(
    valuesOf(series, (p) => p.faults),
    [10, 30, null, 7, 8],
  );
  assert.deepEqual(
    ratePerSecond(series, (p) => p.faults),
    [20, 20, null, 1, 1],
  );
  assert.deepEqual(insertGaps(points.slice(0, 2)), points.slice(0, 2), "one process is in one piece");
  assert.deepEqual(insertGaps([]), []);
});

test("duplicate points are dropped", () => {
  const all = appendPoints([point(1, 0), point(2, 0)], [point(2, 0), point(3, 0), point(4, 0)]);
  assert.deepEqual(
    all.map((p) => p.t),
    [1, 2, 3, 4],
  );
});

test("a day of points stays within the limit and keeps the start and the last seconds", () => {
  let all: Point[] = [];
  for (let t = 1; t <= 86_400; t++) all = appendPoints(all, [point(t, 0)], 600);
  assert.ok(all.length <= 600, `${all.length} points`);
  assert.equal(all[0]!.t, 1);
  assert.deepEqual(
    all.slice(-250).map((p) => p.t),
    Array.from({ length: 250 }, (_, i) => 86_400 - 249 + i),
  );
});

test("a sparkline has each value at its time", () => {
  assert.equal(sparkline([0, 5, 10], [1000, 2000, 11_000], 102, 13), "1,12 11,7 101,2");
});

test("values are formatted with their units", () => {
  assert.deepEqual([0, 1023, 1024, 10.5 * 1024, 1023.9 * 1024, -3 * 2 ** 20].map(bytes), [
    "0 B",
    "1023 B",
    "1.00 KiB",
    "10.5 KiB",
    "1.00 MiB",
    "−3.00 MiB",
  ]);
  assert.equal(count(-1234567), "−1,234,567");
  assert.deepEqual([percent(1, 3), percent(1, 1000), percent(0, 0), percent(0, 5)], ["33 %", "0.1 %", "", "0 %"]);
});

test("an unknown error is not formatted as 0", () => {
  assert.deepEqual(
    [0, 2048, null].map((error) => plusMinus(error, "bytes")),
    ["", " ± 2.00 KiB", " ± ?"],
  );
  assert.deepEqual([differenceError(3, 4), differenceError(null, 4), differenceError(3, null)], [5, null, null]);
});

test("a time of another day includes the date", () => {
  assert.match(clock(Date.now()), /^\d\d:\d\d:\d\d$/);
  assert.match(clock(Date.UTC(2001, 6, 5, 12)), /5 Jul 2001/);
});
