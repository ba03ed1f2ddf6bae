// The open branches of the tree, in a short form for the address. A branch is identified by a hash of the names on the
// path from the root, so that it is the same in the next profile. The list contains the branches that the user has
// opened and, with a minus sign, those that the user has closed. All others have their default state. Pure functions.
import { hash } from "./hash.ts";

/** The hash of a branch, computed from that of its parent. The root's is that of "". */
export function branchId(parent: string, name: string): string {
  return hash(`${parent}\n${name}`).toString(36);
}

/** The state of each listed branch: true is open. Invalid text in the address is ignored. */
export function parseBranches(text: string): Map<string, boolean> {
  const known = new Map<string, boolean>();
  for (const one of text.split(".")) {
    const found = /^(-?)([0-9a-z]{1,7})$/.exec(one);
    if (found) known.set(found[2]!, found[1] === "");
  }
  return known;
}

/** The list after a branch was opened or closed. defaultOpen: its default state. */
export function toggleBranch(text: string, branch: string, open: boolean, defaultOpen: boolean): string {
  const known = parseBranches(text);
  known.delete(branch);
  if (open !== defaultOpen) known.set(branch, open);
  return [...known].map(([name, isOpen]) => (isOpen ? name : `-${name}`)).join(".");
}
