// What the page shows, kept in the address behind the #, so that a link shows the same.
import { useCallback, useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { About, Figures } from "./look.ts";
import type { Folded } from "./model/stacks.ts";

export interface Shown {
  view: string;
  kind: string; // of profile
  at: number; // id of a moment; 0: the last one, and it follows
  base: number; // compared with this one; -1: not
  from: number; // only this time, ms since 1970, of what is kept in a folder; 0: no bound
  until: number;
  type: string; // a sample type; "": the profile's default
  focus: string;
  ignore: string;
  hide: string;
  module: string;
  search: string;
  function: string; // of the view "callers"
  region: string; // of the heap map: address of the first one that is shown in parts
  paint: string; // of the heap map: "class" or ""
  sort: string; // of the functions: a column; "": by what is chosen
  lived: string; // of the lifetimes: a class of age; "": all
  by: string; // likewise: their order; "": by temporary blocks
  last: number; // of the growth: the last so many seconds; 0: all
  zoom: string; // of the flame graph: names from the root, one a line
  open: string; // of the tree: branches that were opened or closed (model/branches.ts)
  inverted: boolean;
  folded: Folded; // recursion
  nodes: number; // of the graph: functions with less than so many percent are left out
  edges: number; // likewise calls
  most: number; // functions at most
  what: string; // of the changes: new, gone, grown or shrunk stacks alone
  flames: boolean; // the flame graph's root at the bottom
  sizeFrom: string; // of blocks, as it was typed
  sizeTo: string;
  labels: string; // of rows: "lifetime=alive&pool=cache"
  thread: string; // of rows: whose name matches, or whose id this is
  seconds: number; // a window from now on; 0: all that happened
  colour: string; // of the flame graph: "module" or "change"; "": by change if there is one
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

/** What each view of a profile gets. */
export interface ViewProps<V extends keyof Figures = keyof Figures> {
  about: About;
  figures: Figures[V];
  shown: Shown;
  change: Change;
}

export function useShown(): [Shown, Change] {
  const [shown, setShown] = useState(() => read(location.hash));
  // Not after the first frame: an address that changed before it would be missed.
  useLayoutEffect(() => {
    const follow = () => setShown(read(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const change: Change = useCallback((some) => {
    const next = write({ ...read(location.hash), ...some });
    // Another view is a step that "back" undoes; a letter typed into a filter is not.
    if ("view" in some) location.hash = next;
    else {
      history.replaceState(null, "", next);
      setShown(read(next));
    }
  }, []);
  return [shown, change];
}

/** Asks again every `every` ms (again: nothing else has changed), and at once when a dependency changes; while the page is hidden, as soon as it is seen. */
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
