import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { JOINT, freed } from "./deaths.ts";
import { lines } from "./stacks.ts";

test("what has nobody below the joint is not known", () => {
  const stacks = {
    frames: ["main", "make", JOINT, "drop"].map((n) => ({ n })),
    stacks: [[0, 1, 2, 0, 3], [0, 1, 2], [0, 2, 3]],
    values: [[70], [20], [10]],
  } as unknown as Stacks;
  assert.deepEqual(freed(stacks, lines(stacks, 0)), { known: 80, all: 100 });
  assert.deepEqual(freed(stacks, lines(stacks, 0, { focus: "make" })), { known: 70, all: 90 }, "of what is shown");
  assert.deepEqual(freed(stacks, []), { known: 0, all: 0 });
});
