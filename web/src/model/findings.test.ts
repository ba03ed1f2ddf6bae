import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { FINDING_VIEWS, functionAt } from "./findings.ts";

test("each finding of doctor has a view", () => {
  const ids = [...readFileSync("../tool/doctor/checks.go", "utf8").matchAll(/^\t\{"([a-z-]+)",/gm)].map(
    (match) => match[1]!,
  );
  assert.ok(ids.length >= 9, `${ids}`);
  assert.deepEqual(Object.keys(FINDING_VIEWS).sort(), ids.sort());
});

test("functionAt parses a location with and without its line", () => {
  assert.equal(functionAt("main shop.cc:7"), "main");
  assert.equal(functionAt("operator new(unsigned long)"), "operator new(unsigned long)");
});
