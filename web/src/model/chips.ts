// What is set in the filter bar, as short texts, and the changes that remove it.
import { kindSettings, type ViewState } from "../state.ts";
import { LABEL_NAMES, withLabel } from "./rowfilters.ts";

export interface Chip {
  name: string;
  text: string; // its value; "": the name says it
  reset: Partial<ViewState>;
}

// The filters that go with the user from view to view. A view that ignores one says so (ignoredfilters.ts).
function filterChips(shown: ViewState): Chip[] {
  const patterns = (["focus", "ignore", "hide", "module", "thread"] as const)
    .filter((name) => shown[name])
    .map((name) => ({ name, text: shown[name], reset: { [name]: "" } }));
  const labels = [...new URLSearchParams(shown.labels)].map(([key, value]) => ({
    name: LABEL_NAMES[key] ?? key,
    text: value,
    reset: { labels: withLabel(shown.labels, key, "") },
  }));
  const sizes = [shown.sizeFrom && `from ${shown.sizeFrom}`, shown.sizeTo && `to ${shown.sizeTo}`].filter(Boolean);
  return [
    ...patterns,
    ...(sizes.length ? [{ name: "size", text: sizes.join(" "), reset: { sizeFrom: "", sizeTo: "" } }] : []),
    ...labels,
    ...(shown.seconds ? [{ name: "over", text: `${shown.seconds} s`, reset: { seconds: 0 } }] : []),
  ];
}

/** The choices that only views of a profile have. */
function profileChips(shown: ViewState): Chip[] {
  const { kind, type, at, base, raw } = shown;
  return [
    ...(kind !== "heap" ? [{ name: "profile", text: kind, reset: kindSettings("heap") }] : []),
    ...(type ? [{ name: "shows", text: type, reset: { type: "" } }] : []),
    ...(kind === "heap" && at > 0 ? [{ name: "at", text: `profile ${at}`, reset: { at: 0 } }] : []),
    ...(kind === "heap" && base >= 0 ? [{ name: "compared with", text: `profile ${base}`, reset: { base: -1 } }] : []),
    ...(raw ? [{ name: "all frames", text: "", reset: { raw: false } }] : []),
  ];
}

/** isProfile: it is a view of a profile. */
export function chipsOf(shown: ViewState, isProfile: boolean): Chip[] {
  return [
    ...(isProfile ? profileChips(shown) : []),
    ...(shown.view === "growth" && shown.last ? [{ name: "window", text: `${shown.last} s`, reset: { last: 0 } }] : []),
    ...(shown.view === "lifetimes" && shown.lived ? [{ name: "lived", text: shown.lived, reset: { lived: "" } }] : []),
    ...filterChips(shown),
  ];
}

/** The change that removes all of them. */
export function resetAll(chips: Chip[]): Partial<ViewState> {
  return Object.assign({}, ...chips.map((chip) => chip.reset), { labels: "" });
}
