// The filters that a view ignores, and why. The view shows a message if one of them is set, since a filter without
// effect would be misleading. The views of a profile apply all filters that their kind of profile supports.
import { isAllSizes } from "./rows.ts";

export type Filter = "focus" | "ignore" | "hide" | "module" | "size" | "thread" | "labels" | "over";

interface Heeded {
  filters: Filter[];
  why: string; // why the others are ignored
}

const WHOLE: Heeded = { filters: [], why: "it shows the whole process" };

const HEEDED: Record<string, Heeded> = {
  overview: WHOLE,
  growth: { filters: ["focus", "ignore", "module", "size", "thread"], why: "it ranks whole stacks by their live bytes" },
  map: { filters: ["focus", "ignore", "size"], why: "for a span only the size of its blocks is known, and possibly a stack that pins it" },
  sizes: { filters: ["size"], why: "blocks are counted only by size class" },
  lifetimes: { filters: ["focus", "ignore", "module", "size", "thread"], why: "it sums up the blocks of whole stacks since the start of the process" },
  kernel: { filters: ["focus", "ignore", "thread"], why: "calls are counted only by reason; in the live trace each has its thread and its stack" },
  doctor: WHOLE,
  settings: WHOLE,
};

// The answers in a report were made before any filter was set.
const IN_REPORT: Record<string, Heeded> = {
  growth: { filters: ["focus", "ignore"], why: "a report has the growth of all rows" },
  lifetimes: { filters: [], why: "a report has the lifetimes of all stacks" },
  kernel: { filters: [], why: "a report has the counts of all calls" },
};

export interface Set {
  focus: string;
  ignore: string;
  hide: string;
  module: string;
  sizeFrom: string;
  sizeTo: string;
  thread: string;
  labels: string;
  seconds: number;
}

/** The filters that are set but ignored by the view, and why; null if there are none. */
export function unheeded(view: string, set: Set, inReport: boolean): { filters: Filter[]; why: string } | null {
  const all = inReport && Object.hasOwn(IN_REPORT, view) ? IN_REPORT : HEEDED;
  const heeded = Object.hasOwn(all, view) && all[view];
  if (!heeded) return null;
  const given: Record<Filter, boolean> = {
    focus: !!set.focus, ignore: !!set.ignore, hide: !!set.hide, module: !!set.module, size: !isAllSizes(set), thread: !!set.thread, labels: !!set.labels, over: set.seconds > 0,
  };
  const filters = (Object.keys(given) as Filter[]).filter((name) => given[name] && !heeded.filters.includes(name));
  return filters.length > 0 ? { filters, why: heeded.why } : null;
}
