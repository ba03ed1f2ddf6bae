import assert from "node:assert/strict";
import test from "node:test";
import { findCommands } from "./commands.ts";

const COMMANDS = [
  ["Flame graph", "Who"],
  ["Graph", "Who"],
  ["Growth", "Change"],
  ["remove all filters", "Action"],
].map(([name, group]) => ({ name: name!, group: group!, run: () => {} }));

const names = (text: string) => findCommands(COMMANDS, text).map((command) => command.name);

test("the commands that match are found", () => {
  assert.equal(names("").length, COMMANDS.length);
  assert.equal(names("  ").length, COMMANDS.length);
  assert.deepEqual(names("graph"), ["Graph", "Flame graph"], "those that begin with it come first");
  assert.deepEqual(names("gr"), ["Graph", "Growth", "Flame graph"]);
  assert.deepEqual(names("who fl"), ["Flame graph"], "the group counts, too");
  assert.deepEqual(names("FILTERS remove"), ["remove all filters"], "in any order and case");
  assert.deepEqual(names("nothing"), []);
});
