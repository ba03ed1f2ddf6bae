import assert from "node:assert/strict";
import test from "node:test";
import { DEFAULT_STATE, type ViewState } from "../state.ts";
import { chipsOf, resetAll } from "./chips.ts";

const texts = (set: Partial<ViewState>, isProfile = true) =>
  chipsOf({ ...DEFAULT_STATE, ...set }, isProfile).map((chip) => `${chip.name} ${chip.text}`.trim());

test("a chip says what is set", () => {
  assert.deepEqual(texts({}), []);
  assert.deepEqual(
    texts({
      focus: "a",
      ignore: "b",
      hide: "c",
      module: "d",
      thread: "e",
      sizeFrom: "1K",
      labels: "pool=f",
      seconds: 5,
    }),
    ["focus a", "ignore b", "hide c", "module d", "thread e", "size from 1K", "pool f", "over 5 s"],
  );
  assert.deepEqual(texts({ sizeFrom: "1K", sizeTo: "2K", labels: "lifetime=alive&freed_by=same thread" }), [
    "size from 1K to 2K",
    "lived alive",
    "freed by same thread",
  ]);
  assert.deepEqual(texts({ at: 7, base: 3, raw: true, type: "inuse_objects" }), [
    "shows inuse_objects",
    "at profile 7",
    "compared with profile 3",
    "all frames",
  ]);
});

test("a chip is shown where its choice has an effect", () => {
  assert.deepEqual(texts({ kind: "churn", at: 7, base: 3 }), ["profile churn"], "other kinds have no moments");
  assert.deepEqual(texts({ kind: "churn", at: 7, raw: true, focus: "a" }, false), ["focus a"]);
  assert.deepEqual(texts({ view: "growth", last: 60, lived: "1ms" }, false), ["window 60 s"]);
  assert.deepEqual(texts({ view: "lifetimes", last: 60, lived: "1ms" }, false), ["lived 1ms"]);
});

test("each chip can be removed, and all of them", () => {
  const shown: ViewState = {
    ...DEFAULT_STATE,
    kind: "lifetime",
    type: "freed_space",
    focus: "a",
    labels: "lifetime=alive&pool=b",
    sizeTo: "1M",
    raw: true,
  };
  for (const chip of chipsOf(shown, true)) {
    const left = chipsOf({ ...shown, ...chip.reset }, true).map((one) => one.name);
    assert.ok(!left.includes(chip.name), chip.name);
  }
  assert.deepEqual(chipsOf({ ...shown, ...resetAll(chipsOf(shown, true)) }, true), []);
});
