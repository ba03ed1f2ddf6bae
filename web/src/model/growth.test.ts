import assert from "node:assert/strict";
import test from "node:test";
import type { Suspect } from "../answers.ts";
import { mergeGrowth } from "./growth.ts";

const one = (stack: string, inner: number, bytes_per_s: number, now: number): Suspect => ({
  stack: stack.split(" "),
  inner,
  bytes_per_s,
  sure: 1,
  now,
  values: [],
  times: [],
});

test("stacks with the same shown names are merged, callers of a helper are not", () => {
  const all = [
    one("filled parser main", 0, 50, 500),
    one("Box::new sessions main", 1, 40, 400),
    one("Vec::grow Vec::push sessions main", 2, 20, 100),
    one("filled session main", 0, 30, 300),
  ];
  assert.deepEqual(
    mergeGrowth(all).map((each) => [each.stack[each.inner], each.stack[each.inner + 1], each.bytes_per_s, each.now]),
    [
      ["sessions", "main", 60, 500],
      ["filled", "parser", 50, 500],
      ["filled", "session", 30, 300],
    ],
  );
  assert.equal(all[1]!.bytes_per_s, 40, "left as it was");
  assert.deepEqual(mergeGrowth([]), []);
});
