import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { compareStacks } from "./changes.ts";
import { selectStacks, sumStacks } from "./stacks.ts";

const STACKS: Stacks = {
  types: [{ name: "inuse_space", unit: "bytes", what: "" }],
  default: 0,
  period: 1,
  t: 0,
  comments: null,
  errors: [0],
  frames: [{ n: "main" }, { n: "f", l: 1 }, { n: "f", l: 2 }, { n: "g" }, { n: "h" }, { n: "i" }, { n: "j" }],
  stacks: [[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 6], [0]],
  values: [[100], [50], [0], [7], [10], [30], [5]],
  base: [[40], [70], [90], [0], [12], [30], [2]],
};

test("new, gone, grown and shrunk stacks add up to the change", () => {
  const { rows, byType: parts, value, base } = compareStacks(STACKS, selectStacks(STACKS, 0));
  assert.deepEqual(
    rows.map((row) => [row.stack[0], row.base, row.value, row.type]),
    [
      ["g", 90, 0, "gone"],
      ["f", 110, 150, "grown"],
      ["h", 0, 7, "new"],
      ["main", 2, 5, "grown"],
      ["i", 12, 10, "shrunk"],
    ],
  );
  assert.deepEqual(parts, {
    new: { stacks: 1, change: 7 },
    gone: { stacks: 1, change: -90 },
    grown: { stacks: 2, change: 43 },
    shrunk: { stacks: 1, change: -2 },
    same: { stacks: 1, change: 0 },
  });
  const sum = sumStacks(selectStacks(STACKS, 0));
  assert.deepEqual([value, base], [sum.value, sum.base]);
  assert.equal(
    Object.values(parts).reduce((all, part) => all + part.change, 0),
    value - base,
  );
});

test("lines of one function are one stack, in any order", () => {
  const only: Stacks = {
    ...STACKS,
    stacks: [
      [0, 1],
      [0, 2],
    ],
    values: [[10], [0]],
    base: [[0], [10]],
  };
  const { rows, byType: parts } = compareStacks(only, selectStacks(only, 0));
  assert.deepEqual(rows, []);
  assert.equal(parts.same.stacks, 1);
});

test("comparisons apply the filters", () =>
  assert.equal(compareStacks(STACKS, selectStacks(STACKS, 0, { ignore: "^g$" })).byType.gone.stacks, 0));

test("memory of a container belongs to the function that fills it", () => {
  const std: Stacks = {
    ...STACKS,
    frames: [
      { n: "main" },
      { n: "fill" },
      { n: "std::vector::push_back", p: true },
      { n: "std::allocator::allocate", p: true },
    ],
    stacks: [
      [0, 1, 2, 3],
      [0, 1],
      [2, 3],
    ],
    values: [[9], [8], [7]],
    base: [[0], [0], [0]],
  };
  assert.deepEqual(
    compareStacks(std, selectStacks(std, 0)).rows.map((row) => row.stack.slice(row.inner)[0]),
    ["fill", "fill", "std::allocator::allocate"],
  );
});
