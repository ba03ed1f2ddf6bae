import assert from "node:assert/strict";
import test from "node:test";
import type { Point } from "../answers.ts";
import { RESIDENT_PARTS } from "./residentparts.ts";

const point = (some: Partial<Point>) =>
  ({ live: 50, cached: 30, dirty: 20, frag: 7, meta: 3, other: 10, rss: 100, ...some }) as Point;
const parts = (some: Partial<Point>) =>
  Object.fromEntries(RESIDENT_PARTS.map((part) => [part.label, part.of(point(some))]));

test("the parts of resident memory add up to RSS, and free pages are separate from thread caches", () => {
  assert.deepEqual(parts({}), {
    live: 50,
    "cached by threads": 10,
    fragmentation: 7,
    dirty: 20,
    metadata: 3,
    "not ours": 10,
  });
  for (const dirty of [0, 20, 30, 45]) {
    const all = Object.values(parts({ dirty }));
    assert.equal(
      all.reduce((sum, one) => sum + one, 0),
      100,
      `${dirty}`,
    );
    assert.ok(
      all.every((one) => one >= 0),
      `${dirty}`,
    );
  }
});
