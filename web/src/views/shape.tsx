// The shape of a call tree: its direction, and whether recursion is folded.
import type { Folded } from "../model/stacks.ts";
import type { Change, Shown } from "../state.ts";

const FOLDED: Record<Folded, string> = { "": "no", direct: "direct (f → f)", all: "all (f → g → f)" };

/** fixed: it cannot be inverted. */
export function ShapeOfTree({ shown, change, fixed = false }: { shown: Shown; change: Change; fixed?: boolean }) {
  return (
    <>
      {!fixed && <label><input type="checkbox" checked={shown.inverted} onChange={() => change({ inverted: !shown.inverted, zoom: "", open: "" })} /> from the allocating function to its callers</label>}
      <label title="direct: a function that calls itself is one frame. all: also recursion through other functions, which are left out; the callees of the innermost call are shown below the outermost one.">
        fold recursion <select value={shown.folded} onChange={(event) => change({ folded: event.currentTarget.value as Folded })}>
          {Object.entries(FOLDED).map(([folded, text]) => <option key={folded} value={folded}>{text}</option>)}
        </select>
      </label>
    </>
  );
}
