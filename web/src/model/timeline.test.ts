import assert from "node:assert/strict";
import test from "node:test";
import { between, nearest, places } from "./timeline.ts";

test("moments lie where their times are", () => {
  assert.deepEqual(places([1000, 2000, 5000]), [0, 0.25, 1]);
  assert.deepEqual(places([1000, 1000]), [0, 0]);
  assert.deepEqual(places([]), []);
});

test("a drag chooses the nearest moments, either way, and one where there is no other", () => {
  const at = places([0, 10, 20, 100]);
  assert.equal(nearest(at, 0.16), 2);
  assert.deepEqual(between(at, 0.02, 0.9), [0, 3]);
  assert.deepEqual(between(at, 0.9, 0.08), [1, 3]);
  assert.deepEqual(between(at, 0.5, 0.3), [2, 2]);
});
