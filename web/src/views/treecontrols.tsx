// The shape of a call tree: its direction, and whether recursion is folded.
import type { RecursionFolding } from "../model/stacks.ts";
import type { Change, ViewState } from "../state.ts";

const FOLDING_TEXTS: Record<RecursionFolding, string> = { "": "no", direct: "direct (f → f)", all: "all (f → g → f)" };

/** hideDirection: the tree cannot be inverted. */
export function TreeControls({
  shown,
  change,
  hideDirection = false,
}: {
  shown: ViewState;
  change: Change;
  hideDirection?: boolean;
}) {
  return (
    <>
      {!hideDirection && (
        <label>
          <input
            type="checkbox"
            checked={shown.inverted}
            onChange={() => change({ inverted: !shown.inverted, zoom: "", open: "" })}
          />{" "}
          from the allocating function to its callers
        </label>
      )}
      <label title="direct: a function that calls itself is one frame. all: also recursion through other functions, which are left out; the callees of the innermost call are shown below the outermost one.">
        fold recursion{" "}
        <select
          value={shown.folded}
          onChange={(event) => change({ folded: event.currentTarget.value as RecursionFolding })}
        >
          {Object.entries(FOLDING_TEXTS).map(([folded, text]) => (
            <option key={folded} value={folded}>
              {text}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}
