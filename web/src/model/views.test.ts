import assert from "node:assert/strict";
import test from "node:test";
import type { State } from "../answers.ts";
import { groupOf, knownView, missingData, VIEW_GROUPS } from "./views.ts";

const FILES: State = { title: "a.pb.gz", process: false, live: false, allow_set: false, kinds: null };

test("each view is in one group", () => {
  const all = VIEW_GROUPS.flatMap((group) => Object.keys(group.views));
  assert.equal(new Set(all).size, all.length);
  for (const group of VIEW_GROUPS) for (const view of Object.keys(group.views)) assert.equal(groupOf(view), group);
  for (const view of all) assert.equal(knownView(view), view);
  for (const unknown of ["", "nothing", "constructor"]) {
    assert.equal(knownView(unknown), "overview", unknown);
    assert.equal(groupOf(unknown).name, "Summary", unknown);
  }
});

test("a view without data says why", () => {
  const missing = (state: State) =>
    VIEW_GROUPS.flatMap((group) => Object.keys(group.views)).filter((view) => missingData(view, state));
  assert.deepEqual(missing(FILES), ["doctor", "lifetimes", "map", "sizes", "kernel", "settings"]);
  assert.deepEqual(missing({ ...FILES, report: 1 }), missing(FILES), "a report of files");
  const process = { ...FILES, process: true };
  assert.deepEqual(missing({ ...process, live: true }), []);
  assert.deepEqual(missing({ ...process, ended: "exited" }), []);
  assert.deepEqual(missing({ ...process, report: 1 }), []);
  assert.deepEqual(missing({ ...process, stored: { dir: "d" } }), ["doctor", "map"]);
  assert.deepEqual(missing({ ...process, stored: { dir: "d", map: true, doctor: true } }), []);
});
