import assert from "node:assert/strict";
import test from "node:test";
import { type FilterValues, ignoredFilters } from "./ignoredfilters.ts";

const NONE: FilterValues = {
  focus: "",
  ignore: "",
  hide: "",
  module: "",
  sizeFrom: "",
  sizeTo: "",
  thread: "",
  labels: "",
  seconds: 0,
};
const ALL: FilterValues = {
  focus: "a",
  ignore: "b",
  hide: "c",
  module: "d",
  sizeFrom: "1K",
  sizeTo: "",
  thread: "e",
  labels: "pool=f",
  seconds: 5,
};

test("a view reports the set filters that it ignores", () => {
  const left = (view: string, set: FilterValues, inReport = false) =>
    ignoredFilters(view, set, inReport)?.filters.join(" ") ?? "";
  for (const view of ["overview", "growth", "map", "sizes", "lifetimes", "kernel", "doctor", "settings", "flame"])
    assert.equal(left(view, NONE), "", view);
  assert.equal(left("overview", ALL), "focus ignore hide module size thread labels over");
  assert.equal(left("growth", ALL), "hide labels over");
  assert.equal(left("growth", ALL, true), "hide module size thread labels over");
  assert.equal(left("lifetimes", ALL), "hide labels over");
  assert.equal(left("lifetimes", { ...NONE, thread: "w" }), "");
  assert.equal(left("lifetimes", { ...NONE, thread: "w" }, true), "thread");
  assert.equal(left("sizes", { ...NONE, sizeTo: "4K", thread: "w" }), "thread");
  assert.equal(left("sizes", { ...NONE, sizeFrom: "4K", sizeTo: "1K" }), "", "a range that cannot be read is none");
  assert.equal(left("flame", ALL), "", "what a profile does not tell stands beside its filters");
  assert.equal(left("constructor", ALL), "", "an address may name anything");
  assert.match(ignoredFilters("lifetimes", ALL, false)!.reason, /of whole stacks/);
});
