// The state of the page, stored in the address after the #, so that a link restores it.
import { useCallback, useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { RecursionFolding } from "./model/stacks.ts";

export interface ViewState {
  view: string;
  kind: string; // of profile
  at: number; // id of a moment; 0: the last one, with live updates
  base: number; // the moment to compare with; -1: none
  from: number; // time range of a folder, ms since 1970; 0: no limit
  until: number;
  type: string; // a sample type; "": the profile's default
  focus: string;
  ignore: string;
  hide: string;
  raw: boolean; // stacks as they are, instead of charging memory to the program's functions
  module: string;
  search: string;
  function: string; // for the view "callers"
  region: string; // heap map: address of the first region that is shown in parts
  paint: string; // heap map: "class" or ""
  sort: string; // functions: a column; "": the default
  lived: string; // lifetimes: an age class; "": all
  by: string; // lifetimes: the order; "": by temporary blocks
  last: number; // growth: the last seconds to use; 0: all
  zoom: string; // flame graph: names from the root, one per line
  open: string; // tree: branches that were opened or closed (model/branches.ts)
  inverted: boolean;
  folded: RecursionFolding; // recursion
  nodes: number; // graph: functions below this percentage are left out
  edges: number; // the same for calls
  most: number; // maximum number of functions
  what: string; // changes: only new, gone, grown or shrunk stacks
  flames: boolean; // flame graph with the root at the bottom
  sizeFrom: string; // of blocks, as typed
  sizeTo: string;
  labels: string; // for rows: "lifetime=alive&pool=cache"
  thread: string; // for rows: a pattern for the thread's name, or its id
  seconds: number; // length of a window that starts now; 0: since the start
  colour: string; // flame graph: "module" (by origin) or "change"; "": by change in a comparison
  filters: boolean; // the filter bar is open
}

export const DEFAULT_STATE: ViewState = {
  view: "overview",
  kind: "heap",
  at: 0,
  base: -1,
  from: 0,
  until: 0,
  type: "",
  focus: "",
  ignore: "",
  hide: "",
  raw: false,
  module: "",
  search: "",
  function: "",
  inverted: false,
  folded: "",
  nodes: 0.5,
  edges: 0.1,
  most: 80,
  what: "",
  flames: false,
  colour: "",
  sizeFrom: "",
  sizeTo: "",
  labels: "",
  thread: "",
  seconds: 0,
  region: "",
  paint: "",
  sort: "",
  lived: "",
  by: "",
  last: 0,
  zoom: "",
  open: "",
  filters: false,
};

/** The settings for another kind of profile, which has other types, moments and rows. */
export function kindSettings(kind: string): Partial<ViewState> {
  return { kind, type: "", base: -1, at: 0, labels: "", thread: "", seconds: 0 };
}

export function parseState(hash: string): ViewState {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const shown: Record<string, unknown> = { ...DEFAULT_STATE };
  for (const [name, defaultValue] of Object.entries(DEFAULT_STATE)) {
    const text = params.get(name);
    if (text === null) continue;
    if (typeof defaultValue === "number") shown[name] = Number.isFinite(Number(text)) ? Number(text) : defaultValue;
    else shown[name] = typeof defaultValue === "boolean" ? text === "1" : text;
  }
  return shown as unknown as ViewState;
}

export function formatState(shown: ViewState): string {
  const params = new URLSearchParams();
  for (const [name, defaultValue] of Object.entries(DEFAULT_STATE)) {
    const value = shown[name as keyof ViewState];
    if (value !== defaultValue) params.set(name, value === true ? "1" : String(value));
  }
  return "#" + params.toString();
}

export type Change = (change: Partial<ViewState>) => void;

export function useViewState(): [ViewState, Change] {
  const [shown, setShown] = useState(() => parseState(location.hash));
  // Before the first frame: a change of the address before that would be missed otherwise.
  useLayoutEffect(() => {
    const onHashChange = () => setShown(parseState(location.hash));
    addEventListener("hashchange", onHashChange);
    return () => removeEventListener("hashchange", onHashChange);
  }, []);
  const change: Change = useCallback((partial) => {
    const next = formatState({ ...parseState(location.hash), ...partial });
    // A change of view is a step for the "back" button; a letter typed into a filter is not.
    if ("view" in partial) location.hash = next;
    else {
      history.replaceState(null, "", next);
      setShown(parseState(next));
    }
  }, []);
  return [shown, change];
}

/**
 * Repeats the request every `intervalMs` (isRepeat: no dependency has changed), and immediately when a dependency
 * changes. A hidden page sends it when it becomes visible.
 */
export function useRequest<T>(
  send: (isRepeat: boolean) => Promise<T>,
  intervalMs: number,
  dependencies: unknown[],
): { value: T | null; problem: string; isPending: boolean } {
  const [value, setValue] = useState<T | null>(null);
  const [isPending, setPending] = useState(true); // no answer since a dependency changed
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let cancelled = false;
    let isRepeat = false;
    let timer = 0;
    const poll = async () => {
      document.removeEventListener("visibilitychange", poll);
      if (document.hidden) {
        document.addEventListener("visibilitychange", poll);
        return;
      }
      if (!isRepeat) setPending(true);
      try {
        const answer = await send(isRepeat);
        if (cancelled) return;
        setValue(answer);
        setProblem("");
      } catch (failure) {
        if (cancelled) return;
        setProblem(failure instanceof Error ? failure.message : String(failure));
      }
      setPending(false);
      isRepeat = true;
      if (intervalMs > 0) timer = window.setTimeout(poll, intervalMs);
    };
    void poll();
    return () => {
      cancelled = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", poll);
    };
  }, dependencies);
  return { value, problem, isPending };
}
