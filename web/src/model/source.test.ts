import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { excerpt, functionsWithLines, valuesByLine } from "./source.ts";
import { functionTable, selectStacks } from "./stacks.ts";

const A = { n: "f", f: "/src/a.cc" };
const STACKS: Stacks = {
  types: [{ name: "inuse_space", unit: "bytes", what: "" }],
  default: 0,
  period: 1,
  t: 0,
  comments: null,
  errors: [0],
  frames: [
    { n: "main", f: "/src/main.cc", l: 3 },
    { ...A, l: 10 },
    { ...A, l: 12 },
    { n: "f", f: "/src/b.cc", l: 7 },
    { n: "malloced" },
  ],
  stacks: [
    [0, 1],
    [0, 2],
    [0, 1, 1, 2],
    [0, 3],
    [0, 1, 4],
  ],
  values: [[100], [20], [5], [7], [1000]],
};

test("a source line has its flat value, and its cumulative value once per stack", () => {
  const [a, b, ...more] = valuesByLine(STACKS, selectStacks(STACKS, 0), "f");
  assert.deepEqual(more, []);
  assert.equal(a!.file, "/src/a.cc");
  assert.deepEqual(
    [...a!.lines].map(([number, sum]) => [number, sum.flat, sum.cum]),
    [
      [10, 100, 1105],
      [12, 25, 25],
    ],
  );
  assert.deepEqual([a!.total.flat, a!.total.cum], [125, 1125], "the recursive stack counts once");
  assert.deepEqual([b!.file, b!.total.flat, b!.total.cum], ["/src/b.cc", 7, 7]);
  const row = functionTable(STACKS, selectStacks(STACKS, 0)).find((one) => one.name === "f")!;
  assert.equal(a!.total.flat + b!.total.flat, row.flat);
  assert.deepEqual(valuesByLine(STACKS, selectStacks(STACKS, 0), "nobody"), []);
});

test("a comparison has both values of each line", () => {
  const change: Stacks = { ...STACKS, base: [[40], [0], [0], [70], [0]] };
  const parts = valuesByLine(change, selectStacks(change, 0), "f");
  assert.deepEqual(parts[1]!.total, { flat: 7, cum: 7, flatBase: 70, cumBase: 70 });
});

test("an excerpt includes surrounding lines", () => {
  const part = valuesByLine(STACKS, selectStacks(STACKS, 0), "f")[0]!;
  assert.deepEqual(excerpt(part, 100, false), { from: 5, to: 17 });
  assert.deepEqual(excerpt(part, 13, false), { from: 5, to: 13 });
  assert.deepEqual(excerpt(part, 100, true), { from: 1, to: 100 });
});

test("functionsWithLines returns the functions with line numbers", () =>
  assert.deepEqual(functionsWithLines(STACKS, selectStacks(STACKS, 0)), ["f", "main"]));
