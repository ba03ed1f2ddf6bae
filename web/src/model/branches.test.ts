import assert from "node:assert/strict";
import test from "node:test";
import { changed, parse, sign } from "./branches.ts";

test("what was opened and closed is found again", () => {
  let text = changed("", "abc", true, false);
  text = changed(text, "xyz", false, true);
  assert.equal(text, "abc.-xyz");
  assert.deepEqual([...parse(text)], [["abc", true], ["xyz", false]]);
});

test("what is as it comes is not written down", () => {
  assert.equal(changed("abc", "abc", false, false), "");
  assert.equal(changed("-abc.d", "abc", true, true), "d");
  assert.equal(changed("abc", "abc", false, true), "-abc");
});

test("what is no branch is left out", () => {
  assert.deepEqual([...parse("ab..-.zz zz.<b>.1234567890.-7")], [["ab", true], ["7", false]]);
  assert.equal(parse("").size, 0);
});

test("a branch is told by all names from the root on", () => {
  const main = sign("", "main");
  assert.notEqual(sign(main, "f"), sign(sign("", "other"), "f"));
  assert.equal(sign(main, "f"), sign(sign("", "main"), "f"));
  assert.match(sign(main, "std::vector<…>::push_back"), /^[0-9a-z]{1,7}$/, "whatever is in a name");
});
