import assert from "node:assert/strict";
import test from "node:test";
import { timeSpan, timeTicks } from "./format.ts";

test("ticks of a time axis are times, and dates at midnight", () => {
  const at = (...parts: [number, number, number, number?, number?, number?]) => new Date(...parts).getTime() / 1000;
  assert.deepEqual(timeTicks([at(2026, 10, 22, 23, 59, 55), at(2026, 10, 23, 0, 0, 0)], 5), ["23:59:55", "23 Nov"]);
  assert.deepEqual(timeTicks([at(2026, 10, 22, 18, 50), at(2026, 10, 22, 18, 55)], 300), ["18:50", "18:55"]);
  assert.deepEqual(timeTicks([at(2026, 10, 22), at(2026, 10, 24)], 2 * 86400), ["22 Nov", "24 Nov"]);
});

test("a long time has two units", () => {
  assert.deepEqual([0, 89, 90, 5369, 5400, 12_000, 172_799, 172_800, 1_000_000].map(timeSpan), [
    "0 s",
    "89 s",
    "2 min",
    "89 min",
    "1 h 30 min",
    "3 h 20 min",
    "2 days 0 h",
    "2 days 0 h",
    "11 days 14 h",
  ]);
});
