import assert from "node:assert/strict";
import test from "node:test";
import type { TraceEvent } from "../answers.ts";
import { filterError, filterEvents } from "./events.ts";

const event = (id: number, thread: number, thread_name: string, ...stack: string[]): TraceEvent => ({
  id,
  time_s: 0,
  call: "mmap",
  reason: "huge",
  bytes: 1,
  ns: 1,
  thread,
  thread_name,
  stack,
});

const EVENTS = [
  event(1, 100, "main", "filled f.cc:1", "grows f.cc:2"),
  event(2, 101, "Worker 1", "filled f.cc:1", "serves main.cc:9"),
  event(3, 102, "seemalloc"),
];
const NONE = { focus: "", ignore: "", thread: "" };

test("events are filtered by the functions of their stacks and by thread", () => {
  const ids = (filter: Partial<typeof NONE>) => filterEvents(EVENTS, { ...NONE, ...filter }).map((one) => one.id);
  assert.deepEqual(ids({}), [1, 2, 3]);
  assert.deepEqual(ids({ focus: "GROWS" }), [1]);
  assert.deepEqual(ids({ focus: "main" }), [], "not by a file's name");
  assert.deepEqual(ids({ ignore: "filled" }), [3]);
  assert.deepEqual(ids({ focus: "filled", ignore: "^grows$" }), [2]);
  assert.deepEqual(ids({ thread: "^Worker" }), [2]);
  assert.deepEqual(ids({ thread: "^worker" }), [], "with regard to case, as everywhere");
  assert.deepEqual(ids({ thread: "102" }), [3]);
  assert.deepEqual(ids({ thread: "10" }), [], "a whole id");
});

test("an invalid pattern selects no event and reports an error", () => {
  assert.deepEqual(filterEvents(EVENTS, { ...NONE, focus: "(", thread: "[" }).length, 3);
  assert.equal(filterError(NONE), "");
  assert.match(filterError({ ...NONE, focus: "(", thread: "[" }), /^focus=\(: expected a regular expression/);
  assert.match(filterError({ ...NONE, thread: "[" }), /^thread=\[: expected a regular expression/);
});
