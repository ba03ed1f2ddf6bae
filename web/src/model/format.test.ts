import assert from "node:assert/strict";
import test from "node:test";
import { timeTicks } from "./format.ts";

test("ticks of a time axis are times, and dates at midnight", () => {
  const at = (...parts: [number, number, number, number?, number?, number?]) => new Date(...parts).getTime() / 1000;
  assert.deepEqual(timeTicks([at(2026, 10, 22, 23, 59, 55), at(2026, 10, 23, 0, 0, 0)], 5), ["23:59:55", "23 Nov"]);
  assert.deepEqual(timeTicks([at(2026, 10, 22, 18, 50), at(2026, 10, 22, 18, 55)], 300), ["18:50", "18:55"]);
  assert.deepEqual(timeTicks([at(2026, 10, 22), at(2026, 10, 24)], 2 * 86400), ["22 Nov", "24 Nov"]);
});
