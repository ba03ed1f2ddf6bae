// The filters that a view ignores, and why. The view shows a message if one of them is set, since a filter without
// effect would be misleading. The views of a profile apply all filters that their kind of profile supports.
import { acceptsAllSizes } from "./rowfilters.ts";

export type Filter = "focus" | "ignore" | "hide" | "module" | "size" | "thread" | "labels" | "over";

interface FilterSupport {
  filters: Filter[];
  reason: string; // why the others are ignored
}

const NO_FILTERS: FilterSupport = { filters: [], reason: "it shows the whole process" };

const SUPPORTED_FILTERS: Record<string, FilterSupport> = {
  overview: NO_FILTERS,
  growth: {
    filters: ["focus", "ignore", "module", "size", "thread"],
    reason: "it ranks whole stacks by their live bytes",
  },
  map: {
    filters: ["focus", "ignore", "size"],
    reason: "for a span only the size of its blocks is known, and possibly a stack that pins it",
  },
  sizes: { filters: ["size"], reason: "blocks are counted only by size class" },
  lifetimes: {
    filters: ["focus", "ignore", "module", "size", "thread"],
    reason: "it sums up the blocks of whole stacks since the start of the process",
  },
  kernel: {
    filters: ["focus", "ignore", "thread"],
    reason: "calls are counted only by reason; in the live trace each has its thread and its stack",
  },
  doctor: NO_FILTERS,
  settings: NO_FILTERS,
};

// The answers in a report were made before any filter was set.
const REPORT_FILTERS: Record<string, FilterSupport> = {
  growth: { filters: ["focus", "ignore"], reason: "a report has the growth of all rows" },
  lifetimes: { filters: [], reason: "a report has the lifetimes of all stacks" },
  kernel: { filters: [], reason: "a report has the counts of all calls" },
};

export interface FilterValues {
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
export function ignoredFilters(
  view: string,
  set: FilterValues,
  inReport: boolean,
): { filters: Filter[]; reason: string } | null {
  const all = inReport && Object.hasOwn(REPORT_FILTERS, view) ? REPORT_FILTERS : SUPPORTED_FILTERS;
  const support = Object.hasOwn(all, view) && all[view];
  if (!support) return null;
  const isSet: Record<Filter, boolean> = {
    focus: !!set.focus,
    ignore: !!set.ignore,
    hide: !!set.hide,
    module: !!set.module,
    size: !acceptsAllSizes(set),
    thread: !!set.thread,
    labels: !!set.labels,
    over: set.seconds > 0,
  };
  const filters = (Object.keys(isSet) as Filter[]).filter((name) => isSet[name] && !support.filters.includes(name));
  return filters.length > 0 ? { filters, reason: support.reason } : null;
}
