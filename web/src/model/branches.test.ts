import assert from "node:assert/strict";
import test from "node:test";
import { branchId, parseBranches, toggleBranch } from "./branches.ts";

test("opened and closed branches are restored from the address", () => {
  let text = toggleBranch("", "abc", true, false);
  text = toggleBranch(text, "xyz", false, true);
  assert.equal(text, "abc.-xyz");
  assert.deepEqual(
    [...parseBranches(text)],
    [
      ["abc", true],
      ["xyz", false],
    ],
  );
});

test("branches in their default state are not stored", () => {
  assert.equal(toggleBranch("abc", "abc", false, false), "");
  assert.equal(toggleBranch("-abc.d", "abc", true, true), "d");
  assert.equal(toggleBranch("abc", "abc", false, true), "-abc");
});

test("invalid branch ids are ignored", () => {
  assert.deepEqual(
    [...parseBranches("ab..-.zz zz.<b>.1234567890.-7")],
    [
      ["ab", true],
      ["7", false],
    ],
  );
  assert.equal(parseBranches("").size, 0);
});

test("a branch is identified by all names from the root", () => {
  const main = branchId("", "main");
  assert.notEqual(branchId(main, "f"), branchId(branchId("", "other"), "f"));
  assert.equal(branchId(main, "f"), branchId(branchId("", "main"), "f"));
  assert.match(branchId(main, "std::vector<…>::push_back"), /^[0-9a-z]{1,7}$/, "whatever is in a name");
});
