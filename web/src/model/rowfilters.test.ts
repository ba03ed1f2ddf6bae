import assert from "node:assert/strict";
import test from "node:test";
import {
  acceptsAllSizes,
  acceptsSize,
  isValidRange,
  parseBytes,
  rowQuery,
  unsupportedFilters,
  withLabel,
} from "./rowfilters.ts";

const NONE = { sizeFrom: "", sizeTo: "", labels: "", thread: "", seconds: 0 };

test("parseBytes accepts common notations", () => {
  assert.deepEqual(["4096", "4K", "4 KiB", "1.5m", "2GB", "", " 16 b "].map(parseBytes), [
    4096,
    4096,
    4096,
    1572864,
    2 ** 31,
    0,
    16,
  ]);
  assert.deepEqual(["x", "-1", "4Q", "1e3", "4 4"].map(parseBytes), [null, null, null, null, null]);
});

test("only a valid size range is requested", () => {
  assert.equal(rowQuery(NONE), "");
  assert.equal(rowQuery({ ...NONE, sizeFrom: "1K", sizeTo: "4k" }), "&size_from=1024&size_to=4096");
  assert.equal(rowQuery({ ...NONE, sizeTo: "16" }), "&size_to=16");
  for (const bad of [{ sizeFrom: "x" }, { sizeFrom: "4K", sizeTo: "1K" }, { sizeFrom: "1", sizeTo: "y" }]) {
    assert.equal(rowQuery({ ...NONE, ...bad }), "");
    assert.equal(isValidRange({ ...NONE, ...bad }), false);
  }
  assert.equal(
    rowQuery({ ...NONE, labels: "lifetime=1ms+to+10ms", seconds: 5 }),
    "&labels=lifetime%3D1ms%2Bto%2B10ms&seconds=5",
  );
});

test("a size range includes both ends; an invalid range accepts all sizes", () => {
  const acceptedSizes = (sizeFrom: string, sizeTo: string) =>
    [16, 1024, 4096, 4097].filter((size) => acceptsSize({ sizeFrom, sizeTo }, size));
  assert.deepEqual(acceptedSizes("", ""), [16, 1024, 4096, 4097]);
  assert.deepEqual(acceptedSizes("1K", "4K"), [1024, 4096]);
  assert.deepEqual(acceptedSizes("1025", ""), [4096, 4097]);
  assert.deepEqual(acceptedSizes("", "16"), [16]);
  assert.deepEqual(acceptedSizes("4K", "1K"), [16, 1024, 4096, 4097]);
  assert.deepEqual(
    [
      ["", ""],
      ["0", ""],
      ["x", "1K"],
      ["4K", "1K"],
      ["1K", ""],
      ["", "1K"],
    ].map(([sizeFrom, sizeTo]) => acceptsAllSizes({ sizeFrom: sizeFrom!, sizeTo: sizeTo! })),
    [true, true, true, true, false, false],
  );
});

test("thread patterns are sent unchecked: the server validates them", () => {
  assert.equal(rowQuery({ ...NONE, thread: "^worker" }), "&thread=%5Eworker");
  assert.equal(rowQuery({ ...NONE, thread: "(?i)Worker" }), "&thread=%28%3Fi%29Worker", "JavaScript could not read it");
  assert.equal(rowQuery({ ...NONE, thread: "(?=w)" }), "&thread=%28%3F%3Dw%29", "Go cannot read it, and says so");
});

test("filters that a profile does not support are listed", () => {
  const labels = { most: 0, texts: { pool: ["a"] } };
  assert.deepEqual(unsupportedFilters(NONE, labels), []);
  assert.deepEqual(
    unsupportedFilters({ ...NONE, sizeFrom: "4K", labels: "pool=a&lifetime=alive", thread: "w" }, labels),
    ["size", "lifetime", "thread"],
  );
  assert.deepEqual(
    unsupportedFilters({ ...NONE, sizeFrom: "x", thread: "w" }, { most: 16, texts: { thread: [] } }),
    [],
    "a range that cannot be read leaves nothing out",
  );
});

test("a label is set, changed and removed", () => {
  let labels = withLabel("", "lifetime", "1ms to 10ms");
  assert.equal(new URLSearchParams(labels).get("lifetime"), "1ms to 10ms");
  labels = withLabel(withLabel(labels, "freed_by", "another thread"), "lifetime", "");
  assert.equal(labels, "freed_by=another+thread");
});
