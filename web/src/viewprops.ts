import type { Change, ViewState } from "./state.ts";
import type { ProfileInfo, ViewData } from "./viewdata.ts";

/** The properties of each view of a profile. */
export interface ViewProps<V extends keyof ViewData = keyof ViewData> {
  about: ProfileInfo;
  data: ViewData[V];
  shown: ViewState;
  change: Change;
}
