// Which branches of the tree are open, in few letters: they stand in the address. A branch is told by a hash of the names from the
// root to it, so that it is the same one in the next profile; those that the reader has opened are listed, and, with a minus,
// those that he has closed. All others are as they come. Pure functions.
import { hash } from "./hash.ts";

/** A branch's sign, by that of its parent; the root's is that of "". */
export function sign(parent: string, name: string): string {
  return hash(`${parent}\n${name}`).toString(36);
}

/** What was done to each: true is open. Anything else in the address is left out. */
export function parse(text: string): Map<string, boolean> {
  const known = new Map<string, boolean>();
  for (const one of text.split(".")) {
    const found = /^(-?)([0-9a-z]{1,7})$/.exec(one);
    if (found) known.set(found[2]!, found[1] === "");
  }
  return known;
}

/** The list after a branch was opened or closed; usual: how it comes. */
export function changed(text: string, branch: string, open: boolean, usual: boolean): string {
  const known = parse(text);
  known.delete(branch);
  if (open !== usual) known.set(branch, open);
  return [...known].map(([name, isOpen]) => (isOpen ? name : `-${name}`)).join(".");
}
