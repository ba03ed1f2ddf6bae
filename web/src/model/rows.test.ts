import assert from "node:assert/strict";
import test from "node:test";
import { asked, isRange, parseBytes, withLabel } from "./rows.ts";

const NONE = { sizeFrom: "", sizeTo: "", labels: "", thread: "", seconds: 0 };

test("sizes are read as people write them", () => {
  assert.deepEqual(["4096", "4K", "4 KiB", "1.5m", "2GB", "", " 16 b "].map(parseBytes), [4096, 4096, 4096, 1572864, 2 ** 31, 0, 16]);
  assert.deepEqual(["x", "-1", "4Q", "1e3", "4 4"].map(parseBytes), [null, null, null, null, null]);
});

test("only a range that can be read is asked for", () => {
  assert.equal(asked(NONE), "");
  assert.equal(asked({ ...NONE, sizeFrom: "1K", sizeTo: "4k" }), "&size_from=1024&size_to=4096");
  assert.equal(asked({ ...NONE, sizeTo: "16" }), "&size_to=16");
  for (const bad of [{ sizeFrom: "x" }, { sizeFrom: "4K", sizeTo: "1K" }, { sizeFrom: "1", sizeTo: "y" }]) {
    assert.equal(asked({ ...NONE, ...bad }), "");
    assert.equal(isRange({ ...NONE, ...bad }), false);
  }
  assert.equal(asked({ ...NONE, labels: "lifetime=1ms+to+10ms", seconds: 5 }), "&labels=lifetime%3D1ms%2Bto%2B10ms&seconds=5");
});

test("threads are asked for by an expression that can be read", () => {
  assert.equal(asked({ ...NONE, thread: "^worker" }), "&thread=%5Eworker");
  assert.equal(asked({ ...NONE, thread: "(" }), "");
});

test("a label is set, changed and taken away", () => {
  let labels = withLabel("", "lifetime", "1ms to 10ms");
  assert.equal(new URLSearchParams(labels).get("lifetime"), "1ms to 10ms");
  labels = withLabel(withLabel(labels, "freed_by", "another thread"), "lifetime", "");
  assert.equal(labels, "freed_by=another+thread");
});
