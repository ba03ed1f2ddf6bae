import assert from "node:assert/strict";
import test from "node:test";

import type { FunctionRow } from "./stacks.ts";
import { parseSort, sortRows } from "./table.ts";

test("the address selects an existing column", () => {
  assert.deepEqual(parseSort("-cum", false), { by: "cum", reversed: true });
  assert.deepEqual(parseSort("cumChange", true), { by: "cumChange", reversed: false });
  for (const other of ["cumChange", "constructor", "-__proto__", "toString", ""]) {
    assert.deepEqual(parseSort(other, false), { by: "flat", reversed: false }, other);
  }
});

test("functions without a flat value are sorted by their cumulative value", () => {
  const row = (name: string, flat: number, cum: number) =>
    ({ name, flat, cum, flatBase: 0, cumBase: 0 }) as FunctionRow;
  const rows = [row("small", 0, 1), row("leaf", 5, 5), row("large", 0, 9)];
  assert.deepEqual(
    sortRows(rows, "flat", false).map((one) => one.name),
    ["leaf", "large", "small"],
  );
});
