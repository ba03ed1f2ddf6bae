// Why a profile has nothing to show, and what to do.
import type { State } from "../answers.ts";
import { chipsOf, resetAll } from "../model/chips.ts";
import { count } from "../model/format.ts";
import type { Change, ViewState } from "../state.ts";
import type { ProfileInfo } from "../viewdata.ts";

/** Whether no stack has a value, now or in the base of a comparison. */
export function isEmpty({ total }: ProfileInfo): boolean {
  return total.weight === 0 && total.base === 0;
}

export function EmptyProfile({
  about,
  state,
  shown,
  change,
}: {
  about: ProfileInfo;
  state: State;
  shown: ViewState;
  change: Change;
}) {
  const filters = chipsOf(shown, false);
  if (filters.length > 0)
    return (
      <p class="note">
        Nothing passes the filters ({filters.map((chip) => chip.name).join(", ")}).{" "}
        <button onClick={() => change(resetAll(filters))}>remove them</button>
      </p>
    );
  if (about.stacks > 0)
    return (
      <p class="note">
        All {count(about.stacks)} stacks have none of {about.types[about.type]?.what ?? "it"}: choose another value in{" "}
        <em>filters</em> → <em>shows</em>.
      </p>
    );
  const kind = state.kinds?.find((one) => one.name === shown.kind);
  return (
    <p class="note">
      This profile has no samples.{" "}
      {shown.kind === "heap"
        ? "The program has allocated too little so far: about one block in 512 KiB is sampled, or as the option sample says."
        : `Nothing of this kind has happened so far, or it was not recorded${kind ? `: ${kind.what}` : ""}.`}{" "}
      {state.live && "The page reads a new profile every few seconds."}
    </p>
  );
}
