import assert from "node:assert/strict";
import test from "node:test";

import type { Row } from "./stacks.ts";
import { column, sorted } from "./table.ts";

test("the address chooses a column that there is", () => {
  assert.deepEqual(column("-cum", false), { by: "cum", turned: true });
  assert.deepEqual(column("cumChange", true), { by: "cumChange", turned: false });
  for (const other of ["cumChange", "constructor", "-__proto__", "toString", ""]) {
    assert.deepEqual(column(other, false), { by: "flat", turned: false }, other);
  }
});

test("functions that hold nothing themselves stand by what goes through them", () => {
  const row = (name: string, flat: number, cum: number) => ({ name, flat, cum, flatBase: 0, cumBase: 0 }) as Row;
  const rows = [row("small", 0, 1), row("leaf", 5, 5), row("large", 0, 9)];
  assert.deepEqual(sorted(rows, "flat", false).map((one) => one.name), ["leaf", "large", "small"]);
});
