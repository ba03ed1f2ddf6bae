import type { About, Figures } from "./look.ts";
import type { Change, Shown } from "./state.ts";

/** The properties of each view of a profile. */
export interface ViewProps<V extends keyof Figures = keyof Figures> {
  about: About;
  figures: Figures[V];
  shown: Shown;
  change: Change;
}
