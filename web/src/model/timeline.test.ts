import assert from "node:assert/strict";
import test from "node:test";
import { nearestIndex, nearestPair, relativePositions } from "./timeline.ts";

test("moments are positioned by their times", () => {
  assert.deepEqual(relativePositions([1000, 2000, 5000]), [0, 0.25, 1]);
  assert.deepEqual(relativePositions([1000, 1000]), [0, 0]);
  assert.deepEqual(relativePositions([]), []);
});

test("a drag selects the nearest moments in both directions, or a single one", () => {
  const at = relativePositions([0, 10, 20, 100]);
  assert.equal(nearestIndex(at, 0.16), 2);
  assert.deepEqual(nearestPair(at, 0.02, 0.9), [0, 3]);
  assert.deepEqual(nearestPair(at, 0.9, 0.08), [1, 3]);
  assert.deepEqual(nearestPair(at, 0.5, 0.3), [2, 2]);
});
