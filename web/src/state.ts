// The state of the page, stored in the address after the #, so that a link restores it.
import { useCallback, useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Folded } from "./model/stacks.ts";

export interface Shown {
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
  folded: Folded; // recursion
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
  colour: string; // flame graph: "module" or "change"; "": by change in a comparison
}

export const NOTHING: Shown = {
  view: "overview", kind: "heap", at: 0, base: -1, from: 0, until: 0, type: "", focus: "", ignore: "", hide: "", module: "", search: "", function: "",
  inverted: false, folded: "", nodes: 0.5, edges: 0.1, most: 80, what: "", flames: false, colour: "",
  sizeFrom: "", sizeTo: "", labels: "", thread: "", seconds: 0, region: "", paint: "", sort: "", lived: "", by: "", last: 0, zoom: "", open: "",
};

export function read(hash: string): Shown {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const shown: Record<string, unknown> = { ...NOTHING };
  for (const [name, usual] of Object.entries(NOTHING)) {
    const text = given.get(name);
    if (text === null) continue;
    if (typeof usual === "number") shown[name] = Number.isFinite(Number(text)) ? Number(text) : usual;
    else shown[name] = typeof usual === "boolean" ? text === "1" : text;
  }
  return shown as unknown as Shown;
}

export function write(shown: Shown): string {
  const out = new URLSearchParams();
  for (const [name, usual] of Object.entries(NOTHING)) {
    const value = shown[name as keyof Shown];
    if (value !== usual) out.set(name, value === true ? "1" : String(value));
  }
  return "#" + out.toString();
}

export type Change = (change: Partial<Shown>) => void;

export function useShown(): [Shown, Change] {
  const [shown, setShown] = useState(() => read(location.hash));
  // Before the first frame: a change of the address before that would be missed otherwise.
  useLayoutEffect(() => {
    const follow = () => setShown(read(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const change: Change = useCallback((some) => {
    const next = write({ ...read(location.hash), ...some });
    // A change of view is a step for the "back" button; a letter typed into a filter is not.
    if ("view" in some) location.hash = next;
    else {
      history.replaceState(null, "", next);
      setShown(read(next));
    }
  }, []);
  return [shown, change];
}

/**
 * Repeats the request every `every` ms (again: nothing else has changed), and immediately when a dependency
 * changes. A hidden page sends it when it becomes visible.
 */
export function useAnswer<T>(ask: (again: boolean) => Promise<T>, every: number, needs: unknown[]): { value: T | null; problem: string } {
  const [value, setValue] = useState<T | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let over = false;
    let again = false;
    let timer = 0;
    const once = async () => {
      document.removeEventListener("visibilitychange", once);
      if (document.hidden) {
        document.addEventListener("visibilitychange", once);
        return;
      }
      try {
        const got = await ask(again);
        if (over) return;
        setValue(got);
        setProblem("");
      } catch (failure) {
        if (over) return;
        setProblem(failure instanceof Error ? failure.message : String(failure));
      }
      again = true;
      if (every > 0) timer = window.setTimeout(once, every);
    };
    void once();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", once);
    };
  }, needs);
  return { value, problem };
}
