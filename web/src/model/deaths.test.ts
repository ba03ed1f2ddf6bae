import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { FREED_BY_FRAME, freeingCoverage } from "./deaths.ts";
import { selectStacks } from "./stacks.ts";

test("a stack that ends at the joint frame has an unknown freeing stack", () => {
  const stacks = {
    frames: ["main", "make", FREED_BY_FRAME, "drop"].map((n) => ({ n })),
    stacks: [
      [0, 1, 2, 0, 3],
      [0, 1, 2],
      [0, 2, 3],
    ],
    values: [[70], [20], [10]],
  } as unknown as Stacks;
  assert.deepEqual(freeingCoverage(stacks, selectStacks(stacks, 0)), { known: 80, all: 100 });
  assert.deepEqual(
    freeingCoverage(stacks, selectStacks(stacks, 0, { focus: "make" })),
    { known: 70, all: 90 },
    "of what is shown",
  );
  assert.deepEqual(freeingCoverage(stacks, []), { known: 0, all: 0 });
});
